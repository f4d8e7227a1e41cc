"""One turn, stage by stage: perceive, recall, classify, plan, execute, reflect, respond, update."""
