package ash

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// fields expands words to fields.
func (sh *shell) fields(ctx context.Context, words []*syntax.Word) ([]string, error) {
	fields, err := expand.Fields(sh.expansion(ctx), words...)
	return fields, sh.expanded(ctx, err)
}

// text expands a word to one string without splitting it. Assignments and redirections require
// this.
func (sh *shell) text(ctx context.Context, w *syntax.Word) (string, error) {
	s, err := expand.Literal(sh.expansion(ctx), w)
	return s, sh.expanded(ctx, err)
}

// expansion returns the configuration of one expansion. Expansions share no state.
func (sh *shell) expansion(ctx context.Context) *expand.Config {
	return &expand.Config{
		Env: sh,
		CmdSubst: func(w io.Writer, c *syntax.CmdSubst) error {
			sub := sh.child()
			sub.stdout = w
			return sh.contain(sub, sub.stmts(ctx, c.Stmts))
		},
	}
}

// expanded returns the error of an expansion. It distinguishes an error in the script from the
// end of a substitution.
func (sh *shell) expanded(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || errors.Is(err, errTerminated) {
		return err
	}
	return sh.fail("%v", err)
}

func (sh *shell) set(name, value string, exported bool) {
	exported = exported || sh.vars[name].Exported
	sh.vars[name] = expand.Variable{Set: true, Kind: expand.String, Str: value, Exported: exported}
}

// environ lists the exported variables by name.
func (sh *shell) environ() []string {
	var env []string
	for _, name := range slices.Sorted(maps.Keys(sh.vars)) {
		if v := sh.vars[name]; v.Exported {
			env = append(env, name+"="+v.Str)
		}
	}
	return env
}

// Get implements expand.Environ. It returns variables and parameters.
func (sh *shell) Get(name string) expand.Variable {
	v := expand.Variable{Set: true, Kind: expand.String}
	switch name {
	case "@", "*":
		v.Kind, v.List = expand.Indexed, sh.args
	case "?":
		v.Str = strconv.Itoa(sh.status)
	case "$":
		v.Str = strconv.Itoa(sh.pid())
	case "!":
		v.Str = "$!" // a marker that only wait could use, but wait refuses it
	case "#":
		v.Str = strconv.Itoa(len(sh.args))
	case "0":
		v.Str = sh.name
	default:
		n, err := strconv.Atoi(name)
		if err != nil {
			return sh.vars[name]
		}
		if v.Set = n <= len(sh.args); v.Set {
			v.Str = sh.args[n-1]
		}
	}
	return v
}

// Each implements expand.Environ. No POSIX construct calls it.
func (sh *shell) Each(func(name string, v expand.Variable) bool) {}

// Set implements expand.WriteEnviron, for ${NAME=word}.
func (sh *shell) Set(name string, v expand.Variable) error {
	sh.set(name, v.Str, false)
	return nil
}
