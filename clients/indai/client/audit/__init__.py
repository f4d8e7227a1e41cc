"""The offline auditor: judges exports of nodes and of the registry, trusting none of them.

It shares the formats with the servers (`indai.protocol`), and no code that appends, stores or serves.
"""

from __future__ import annotations

from indai.client.audit.findings import CHECKS
from indai.client.audit.report import CommitmentVerdict, Finding, Place, Report, Severity, Verdict
from indai.client.audit.run import audit

__all__ = ["CHECKS", "CommitmentVerdict", "Finding", "Place", "Report", "Severity", "Verdict", "audit"]
