"""The demonstration: a registry and two nodes as processes, six scenes, every claim checked."""
