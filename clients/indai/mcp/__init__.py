"""The node over the Model Context Protocol: an owner's own assistant drives their agent."""
