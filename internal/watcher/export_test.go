package watcher

// LimitObjects sets the limit of one object, in bytes.
func (c *Client) LimitObjects(n int) { c.maxObject = n }
