package coverage

// Words says why an interval ended, where that is no GAP: its reason then.
func Words(reason string) string {
	switch reason {
	case Unknown:
		return "the daemon was killed"
	case Stopped:
		return "the daemon was stopped"
	case Removed:
		return "removed from the config"
	case Interrupted:
		return "the server could not be read"
	case Silent:
		return "not confirmed for over 10 s"
	case Lost:
		return "the lines that follow are missing"
	case HandedOver:
		return "another replica wrote"
	case CaughtUp:
		return "caught up"
	}
	return reason
}
