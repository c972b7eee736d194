package watcher

// LimitObjects sets the limit of one object, in bytes.
func (c *Client) LimitObjects(n int) { c.maxObject = n }

// RefuseUpgrade is for the discovery client of a world, which the daemon's Access gives it.
var RefuseUpgrade = refuseUpgrade
