package follow

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"kubejournal/internal/host/terminal"
)

// Terminal returns the style for what is written to w: the width of a terminal, and colours if it takes them.
func Terminal(w io.Writer, env func(string) string) (s Style) {
	const usual = 80 // where a terminal does not say
	f, ok := terminal.Raw(w).(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return s
	}
	fd := int(f.Fd())
	s.Colour = wantsColour(env)
	s.Width = func() int {
		width, _, err := term.GetSize(fd)
		if err != nil || width <= 0 {
			return usual
		}
		return width
	}
	return s
}

// wantsColour reports whether a terminal is to be coloured: see https://no-color.org; dumb terminals cannot.
func wantsColour(env func(string) string) bool { return env("NO_COLOR") == "" && env("TERM") != "dumb" }

// ReaderGone reports whether w is a pipe whose reader has gone, or a terminal that was hung up.
func ReaderGone(w io.Writer) bool {
	f, ok := terminal.Raw(w).(*os.File)
	if !ok {
		return false
	}
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0 && fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
}
