"""Agent2Agent (A2A) 1.0 in front of this node's agents: one servicer, three bindings."""
