// Package view renders objects, events and usage as text: tables, descriptions, differences, screens. It does not
// read the host, and does not decide where the text goes.
package view
