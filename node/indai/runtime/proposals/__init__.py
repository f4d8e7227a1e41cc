"""Changes of personality: proposed or learned, decided by an operator, kept as versions."""
