// Package schema holds the JSON Schemas (draft 2020-12) of the config and of a journal line.
//
// They are written by hand, since they are read by people too, and held in step by this package's tests: with the keys,
// defaults and faults of package config, and with the lines of package object.
package schema

import _ "embed" // the schemas

//go:embed config.json
var config []byte

//go:embed line.json
var lineSchema []byte

// Config returns the schema of the config file.
func Config() []byte { return config }

// Line returns the schema of one line.
func Line() []byte { return lineSchema }
