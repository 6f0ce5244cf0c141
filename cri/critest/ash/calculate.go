package ash

import (
	"fmt"
	"strconv"
	"strings"
)

// calculate works out an integer expression: + - * / % ( ) and comparisons.
func calculate(expr string, value func(string) string) (int64, error) {
	c := &calculation{rest: expr, value: value}
	n, err := c.level(0)
	if err == nil && strings.TrimSpace(c.rest) != "" {
		err = fmt.Errorf("arithmetic syntax error")
	}
	return n, err
}

type calculation struct {
	rest  string
	value func(string) string
}

var precedence = [][]string{{"||"}, {"&&"}, {"==", "!="}, {"<=", ">=", "<", ">"}, {"+", "-"}, {"*", "/", "%"}}

func (c *calculation) level(l int) (int64, error) {
	if l == len(precedence) {
		return c.unary()
	}
	a, err := c.level(l + 1)
	for err == nil {
		op := c.operator(precedence[l])
		if op == "" {
			return a, nil
		}
		var b int64
		if b, err = c.level(l + 1); err == nil {
			a, err = apply(op, a, b)
		}
	}
	return a, err
}

func (c *calculation) operator(ops []string) string {
	c.rest = strings.TrimLeft(c.rest, " \t\n")
	for _, op := range ops {
		if strings.HasPrefix(c.rest, op) {
			c.rest = c.rest[len(op):]
			return op
		}
	}
	return ""
}

func (c *calculation) unary() (int64, error) {
	switch c.operator([]string{"(", "-", "!"}) {
	case "(":
		n, err := c.level(0)
		if err == nil && c.operator([]string{")"}) == "" {
			err = fmt.Errorf("arithmetic syntax error")
		}
		return n, err
	case "-":
		n, err := c.unary()
		return -n, err
	case "!":
		n, err := c.unary()
		return truth(n == 0), err
	}
	end := strings.IndexFunc(c.rest, func(r rune) bool {
		return r != '_' && !(r >= '0' && r <= '9') && !(r >= 'a' && r <= 'z') && !(r >= 'A' && r <= 'Z')
	})
	if end < 0 {
		end = len(c.rest)
	}
	operand := c.rest[:end]
	c.rest = c.rest[end:]
	if nameLength(operand) == len(operand) && operand != "" && (operand[0] < '0' || operand[0] > '9') {
		if operand = c.value(operand); operand == "" {
			return 0, nil
		}
	}
	n, err := strconv.ParseInt(operand, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("arithmetic syntax error")
	}
	return n, nil
}

func apply(op string, a, b int64) (int64, error) {
	switch op {
	case "+":
		return a + b, nil
	case "-":
		return a - b, nil
	case "*":
		return a * b, nil
	case "/", "%":
		if b == 0 {
			return 0, fmt.Errorf("divide by zero")
		}
		if op == "/" {
			return a / b, nil
		}
		return a % b, nil
	case "==":
		return truth(a == b), nil
	case "!=":
		return truth(a != b), nil
	case "<":
		return truth(a < b), nil
	case ">":
		return truth(a > b), nil
	case "<=":
		return truth(a <= b), nil
	case ">=":
		return truth(a >= b), nil
	case "&&":
		return truth(a != 0 && b != 0), nil
	}
	return truth(a != 0 || b != 0), nil
}

func truth(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
