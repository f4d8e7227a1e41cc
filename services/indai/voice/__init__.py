"""Speech in and out: engines behind one interface, calls from browsers and telephones, voice notes."""
