"""The quick look for required fields, held against the SDK's own."""

from __future__ import annotations

import contextlib

import pytest
from a2a.types import a2a_pb2 as pb
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from hypothesis import given
from hypothesis import strategies as st
from indai.a2a.required import check_required

texts = st.sampled_from(["", "x"])
parts = st.builds(pb.Part, text=texts)
messages = st.builds(
    pb.Message,
    message_id=texts,
    role=st.sampled_from([pb.ROLE_UNSPECIFIED, pb.ROLE_USER]),
    parts=st.lists(parts, max_size=2),
)
configs = st.builds(pb.TaskPushNotificationConfig, url=texts, task_id=texts)
settings_ = st.builds(pb.SendMessageConfiguration, task_push_notification_config=st.none() | configs)
cards = st.builds(
    pb.AgentCard,
    name=texts,
    security_schemes=st.dictionaries(
        st.sampled_from("ab"),
        st.builds(
            pb.SecurityScheme,
            api_key_security_scheme=st.builds(pb.APIKeySecurityScheme, name=texts, location=texts),
        ),
    ),
)
requests = (
    st.builds(pb.SendMessageRequest, message=st.none() | messages, configuration=st.none() | settings_)
    | st.builds(pb.GetTaskRequest, id=texts)
    | configs
    | cards
)


@given(requests)
def test_what_is_missing_is_found_just_where_the_sdk_finds_it(
    request: pb.SendMessageRequest | pb.GetTaskRequest | pb.TaskPushNotificationConfig | pb.AgentCard,
) -> None:
    expected = contextlib.nullcontext()
    try:
        validate_proto_required_fields(request)
    except InvalidParamsError:
        expected = pytest.raises(InvalidParamsError)  # type: ignore[assignment]
    with expected:
        check_required(request)
