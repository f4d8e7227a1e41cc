"""Generated protobuf and gRPC code; the contract itself is the `.proto` files beside it."""
