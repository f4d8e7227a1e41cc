"""The offline auditor: judges exports of nodes and of the registry, trusting none of them."""
