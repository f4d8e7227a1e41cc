"""India's public digital services and payments, as tools: DigiLocker, accounts, health ids, payment links."""
