"""The desk of an organisation: what its people see and do, tenant by tenant."""
