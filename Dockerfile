# The program with its pinned dependencies; which role runs is an option of `indai up`.
FROM python:3.13-slim AS build
WORKDIR /src
RUN python -m venv /opt/indai
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY proto proto
COPY services services
COPY node node
COPY registry registry
COPY clients clients
RUN /opt/indai/bin/pip install --no-cache-dir -c constraints.txt hatchling \
 && /opt/indai/bin/pip install --no-cache-dir -c constraints.txt --no-build-isolation .

FROM python:3.13-slim
# A number of its own, so that the volumes' files keep their owner whatever the base image adds.
RUN useradd --system --uid 10001 --no-create-home indai \
 && install -d -o indai -m 0700 /data && install -d -o indai -m 0755 /network
# Speech without a key.
RUN apt-get update && apt-get install -y --no-install-recommends espeak-ng && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/indai /opt/indai
# At the first connection to a peer gRPC would report the handshake that only fetches its certificate.
ENV PATH=/opt/indai/bin:$PATH INDAI_DATA=/data GRPC_VERBOSITY=ERROR
USER indai
VOLUME /data
EXPOSE 7401 7403 7404 7405
ENTRYPOINT ["indai"]
CMD ["up"]
