"""The SDK a stranger installs: resolve, verify, talk, audit."""
