package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage is the size of a message that is read. None that the tools take is larger.
const maxMessage = 1 << 20

// transport has a message on each line. Other than the SDK's, it answers a line that is no message with an error, and
// reads on.
type transport struct {
	in  io.Reader
	out io.Writer
}

// connection is a transport in use.
type connection struct {
	incoming chan incoming
	closed   chan struct{}
	close    sync.Once

	mu  sync.Mutex
	out io.Writer // guarded by mu
}

// incoming is a line, or why there are no more.
type incoming struct {
	line  []byte
	large bool // it is larger than maxMessage, and not here
	err   error
}

// Connect begins to read. The goroutine ends with what is read, or with the process.
func (t *transport) Connect(context.Context) (mcp.Connection, error) {
	c := &connection{incoming: make(chan incoming), closed: make(chan struct{}), out: t.out}
	go func() {
		for b := bufio.NewReaderSize(t.in, 64<<10); ; {
			next := readLine(b)
			select {
			case c.incoming <- next:
			case <-c.closed:
				return
			}
			if next.err != nil {
				return
			}
		}
	}()
	return c, nil
}

// readLine reads a line. What is left at the end without one is a line too.
func readLine(b *bufio.Reader) (next incoming) {
	for {
		part, err := b.ReadSlice('\n')
		if next.large = next.large || len(next.line)+len(part) > maxMessage; next.large {
			next.line = nil
		} else {
			next.line = append(next.line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && (next.large || len(next.line) > 0):
			return next
		}
		next.err = err
		return next
	}
}

// Read returns the next message.
func (c *connection) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		var next incoming
		select {
		case next = <-c.incoming:
		case <-c.closed:
			return nil, io.EOF
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		line := bytes.TrimSpace(next.line)
		var err error
		switch {
		case next.err != nil:
			return nil, next.err
		case next.large:
			err = c.refuse(jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message has more than %d bytes", maxMessage))
		case len(line) == 0:
		case !json.Valid(line):
			err = c.refuse(jsonrpc.CodeParseError, "a line is not JSON")
		case line[0] == '[':
			err = c.refuse(jsonrpc.CodeInvalidRequest, "a line is a list; send each message on a line of its own")
		default:
			message, wrong := jsonrpc.DecodeMessage(line)
			if wrong == nil {
				return message, nil
			}
			err = c.refuse(jsonrpc.CodeInvalidRequest, "a line is no message of JSON-RPC 2.0")
		}
		if err != nil {
			return nil, err
		}
	}
}

// refuse answers what is no message: nothing says to which request.
func (c *connection) refuse(code int, text string) error {
	return c.write(fmt.Appendf(nil, `{"jsonrpc":"2.0","id":null,"error":{"code":%d,"message":%q}}`, code, text))
}

// Write writes a message.
func (c *connection) Write(_ context.Context, message jsonrpc.Message) error {
	text, err := jsonrpc.EncodeMessage(message)
	if err != nil {
		return err
	}
	return c.write(text)
}

func (c *connection) write(text []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.out.Write(append(text, '\n'))
	return err
}

// Close ends reads.
func (c *connection) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

// SessionID returns none: there is one session.
func (c *connection) SessionID() string { return "" }
