package config

// Fault places what only a server could tell at a key of an entry, as faults of the file are placed. A resource that is
// written as its name alone has no keys.
func (c *Config) Fault(entry, field, msg string) Fault {
	if c.src != nil && c.src.short[entry] {
		field = ""
	}
	return c.src.fault(entry, field, msg)
}
