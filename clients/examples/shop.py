"""A shop that sells what its policy leaves to it: `python shop.py ind.ai/shop`."""

import asyncio
import sys

from indai.client.agent import Agent
from indai.client.outcomes import Question
from indai.v1.commerce_pb2 import SetStockItemRequest, StockItem
from indai.v1.commerce_pb2_grpc import CommerceServiceStub

LAMP = StockItem(item="lamp", title="A reading lamp", units=3, price_minor=90_000, currency="INR")


async def main(handle: str) -> None:
    async with Agent.local(handle) as shop:
        await CommerceServiceStub(shop.channel).SetStockItem(SetStockItemRequest(item=LAMP))

        @shop.on("book")
        async def sell(question: Question) -> bool:
            print(question.terms, flush=True)
            sold = [each for each in await shop.threads() if each.kind == "book" and each.agreed]
            return len(sold) < 2  # keep one for the window

        await shop.serve()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
