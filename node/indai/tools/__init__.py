"""What an agent can do besides talking: tools, who may use them, what they need, what they answer."""
