// Package hostileyaml has texts that want to be more than a value: what readers of YAML take for something else than
// a string. Whoever may create an object chooses its names and values, so each must come out of a question as it was.
package hostileyaml

import (
	"fmt"
	"slices"
)

// Strings returns strings that a version of YAML, or a parser that is lenient, reads as something else where they
// stand plain, or that end what they stand in. All are UTF-8.
func Strings() []string {
	var all []string
	add := func(texts ...string) { all = append(all, texts...) }

	// Words, of YAML 1.1 and 1.2, in each spelling.
	for _, word := range []string{"null", "true", "false", "yes", "no", "on", "off", "y", "n", "t", "f", "none", "nil",
		"undefined", "nan", "inf"} {
		add(word, upper(word), title(word), " "+word, word+" ", word+":", "!"+word, "-"+word, word+"\n")
	}
	add("~", "~ ", " ~", "~:", "NULL", "nULL", "=", "<<", "<<:", "<< ", "<", "<=")
	add("Off", "oN", "tRUE", "(null)", "n/a", "N/A")

	// Numbers in all bases, with signs, and with what may stand in them.
	for _, number := range []string{
		"0", "1", "7", "00", "01", "07", "08", "010", "0o7", "0o10", "0O7", "0x1f", "0X1F", "0xg", "0b1",
		"0b101", "0B1", "0b2", "1_000", "0x_1f", "0b1_0",
		"0_7", "1,000", "1e3", "1E3", "1e+3", "1e-3", "1.0", "1.", ".1", ".", "..", "1.e3", ".5e1", "1_0.5", "1.5_0",
		"0.1e1", "12e03", "0x1p-2", "0x1.8p1",
		"9223372036854775807", "9223372036854775808", "18446744073709551616", "123456789012345678901234567890", "1e400",
		"1e-400", "0.30000000000000004",
		"1:30", "1:2:3", "190:20:30", "190:20:30.15", "12:30:45", "0:0", "60:60", "1:60", "1_0:30", "685_230.15",
		"6.8523015e+5",
		".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN", "Infinity", "NaN", "1d", "1f", "1L", "0d", "1k", "10Ki", "1e",
		"1e+", "0x", "0b", "0o", "_", "_1", "1_", "__1",
	} {
		add(number, "-"+number, "+"+number, number+" ", " "+number, number+":")
	}

	// Times.
	for _, day := range []string{"2001-01-01", "2001-1-1", "2001-12-14", "0001-01-01", "9999-12-31", "2001-13-45",
		"20010101", "2001-02-30"} {
		add(day, day+"T00:00:00Z", day+"t21:59:43.10-05:00", day+" 21:59:43.10 -5", day+" 00:00:00", day+"T00:00",
			day+" ", "-"+day)
	}
	add("12:00", "24:00:00", "2001-W01-1", "2001-001")

	// Indicators, alone, before and after a word, and in its middle.
	for _, c := range "-?:,[]{}#&*!|>'\"%@`\\/=~<>$^;()+._" {
		s := string(c)
		add(s, s+"a", s+" a", "a"+s, "a "+s, "a"+s+"b", "a "+s+" b", "a "+s+"b", "a"+s+" b", s+s, s+s+s, s+"\n",
			"\n"+s, " "+s)
	}

	// Tags, anchors, aliases, directives, documents, blocks.
	add("!!str a", "!!int 1", "!!null", "!!binary YQ==", "!!python/object/apply:os.system [id]", "!!js/function f",
		"!!map {}", "!!set {a}", "!!timestamp 2001-01-01",
		"!local a", "!<tag:yaml.org,2002:str> a", "!", "! a", "!!", "!e!tag a", "&a b", "&a", "*a", "* a", "&a *a",
		"<<: *a", "{<<: *a}", "%YAML 1.1", "%YAML 1.1\n---\na", "%TAG ! tag:a,2000:",
		"---", "--- a", "---\na", "a\n---\nb", "\n---\n", "a\n--- \n", "...", "... a", "a\n...\nb", "\n...\n", "----",
		"-- -", "--- |\n a", "--- # a", "---\n...\n---",
		"|", "|-", "|+", "|2", "|2-", "| a", "|\n a", ">", ">-", ">+", ">1", "> a", ">\n a\n b", "|\n  a\n b", "- a",
		"- - a", "-\ta", "- ", "? a", "? a\n: b", ": a", ": ", "?", "a: b", "a : b", "a:b", "a:\tb",
		"a:\n  b", "a: [b", "a: {b", "a: \"b", "a: 'b", "a: |\n b", "a: &b c", "a: !!int 1", "a # b", "a #b", "a#b",
		"#a", " #a", "\t#a", "a\n#b", "a\n# b\nc",
		"[a", "a]", "[]", "[a, b]", "{", "}", "{}", "{a: b}", "{a}", "{a: [b", "a, b", "a,b", ", a", "[[", "]]", "}}",
		"{{ a }}", "{{a}}", "${a}", "$(a)",
		"a\n  verbs: [\"*\"]", "a\"]\n  verbs: [\"*", "a'\nverbs: ['*']\n#", "a\n\nkind: ClusterRole",
		"]\n- apiGroups: ['*']", "a\"\n---\nkind: Secret\n", "a'\n---\nb", "\"\n", "'\n")

	// Quotes and escapes.
	add("'", "''", "'a'", "'a", "a'", "it's", "''''", "\"", "\"\"", "\"a\"", "\"a", "a\"", "\"\"\"", "'\"", "\"'",
		"\\", "\\\\", "\\n", "\\x41", "\\u0041", "\\U00000041", "\\0", "\\e", "\\\"", "\\'", "\\ ", "\\\n", "a\\",
		"\"\\", "\"\\\"", "`a`", "“a”")

	// White space, ends of lines, and what is neither.
	for _, space := range []string{" ", "  ", "\t", "\n", "\n\n", "\r", "\r\n", "\n\r", "\n \n", " \n", "\n ", "\t\n",
		"\n\t", "\v", "\f", "\u0085", "\u00a0", "\u1680", "\u2000", "\u2003", "\u2028", "\u2029", "\u202f", "\u205f",
		"\u3000", "\ufeff", "\u200b", "\u200c", "\u200d", "\u2060", "\u00ad", "\u180e"} {
		add(space, space+"a", "a"+space, "a"+space+"b", "a"+space+": b", "a:"+space+"b", "a "+space+"# b",
			"-"+space+"a", space+"---"+space, "a"+space+space+"b")
	}

	// Control characters, what turns the direction of text, what is no character, what is beyond 16 bits.
	for c := range rune(' ') {
		add(string(c), "a"+string(c)+"b")
	}
	for c := rune(0x7f); c <= 0x9f; c++ {
		add(string(c), "a"+string(c)+"b")
	}
	for _, c := range []rune{0x61c, 0x200e, 0x200f, 0x202a, 0x202b, 0x202c, 0x202d, 0x202e, 0x2066, 0x2067, 0x2068,
		0x2069, 0xe000, 0xf8ff, 0xfdd0, 0xfffc, 0xfffd, 0xfffe, 0xffff, 0x10000, 0x1f600, 0xe0001, 0xf0000, 0x1fffe,
		0x10ffff, 0x300, 0xd7ff} {
		add(string(c), "a"+string(c)+"b", string(c)+": a")
	}

	// Lengths at which a line is folded, or a key needs a mark of its own.
	for _, n := range []int{79, 80, 81, 127, 128, 129, 1023, 1024, 1025, 4096} {
		add(fmt.Sprintf("%0*d", n, 1), fmt.Sprintf("%*s", n, "a"), fmt.Sprintf("a%*s", n, "b"),
			fmt.Sprintf("a:%*s", n, "b"))
	}
	add("")
	slices.Sort(all)
	return slices.Compact(all)
}

func upper(word string) string {
	b := []byte(word)
	for i := range b {
		b[i] -= 'a' - 'A'
	}
	return string(b)
}

func title(word string) string { return upper(word[:1]) + word[1:] }
