// Package signature verifies signed lists of files: SHA256SUMS as of sha256sum(1), signed with
// ssh-keygen -Y sign. All functions are pure. Their input comes from an attacker, apart from the file
// with the keys; errors do not repeat it.
package signature

import (
	"bytes"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hiddeco/sshsig"
	"golang.org/x/crypto/ssh"
)

// Namespace is the namespace of signatures (ssh-keygen -n). Signatures for other purposes, such as of git
// commits, have another one.
const Namespace = "podrun"

// Limits of the inputs, in bytes.
const (
	MaxSigners   = 64 << 10
	MaxSignature = 16 << 10
	maxKeys      = 64
)

// minRSA is the minimum size of an RSA key, in bits.
const minRSA = 2048

// keyTypes are the supported types of keys.
var keyTypes = []string{ssh.KeyAlgoED25519, ssh.KeyAlgoRSA, ssh.KeyAlgoECDSA256, ssh.KeyAlgoECDSA384, ssh.KeyAlgoECDSA521, ssh.KeyAlgoSKED25519, ssh.KeyAlgoSKECDSA256}

// Signers are the keys that may sign.
type Signers []ssh.PublicKey

// ParseSigners parses a file in OpenSSH's format allowed_signers (ssh-keygen(1), "ALLOWED SIGNERS"). It
// refuses the whole file if it does not understand a line, because an option may restrict the use of a key. It
// does not support cert-authority, patterns of namespaces, and valid-after and valid-before, because the clock
// of a device may be wrong. It skips keys of other namespaces. The principals have no effect.
func ParseSigners(data []byte) (Signers, error) {
	if len(data) > MaxSigners {
		return nil, fmt.Errorf("larger than %d KiB", MaxSigners>>10)
	}
	var out Signers
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.Trim(line, " \t\r")
		if line == "" || line[0] == '#' {
			continue
		}
		key, use, err := parseSigner(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
		if use {
			out = append(out, key)
		}
		if len(out) > maxKeys {
			return nil, fmt.Errorf("more than %d keys", maxKeys)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("it has no key for the namespace %s", Namespace)
	}
	return out, nil
}

// parseSigner parses a line. use reports whether the key may sign in the namespace.
func parseSigner(line string) (key ssh.PublicKey, use bool, err error) {
	fields := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
	if strings.Contains(fields[0], `"`) {
		return nil, false, errors.New("principals in quotes are not supported")
	}
	fields, use = fields[1:], true
	if len(fields) > 0 && !slices.Contains(keyTypes, fields[0]) && strings.Contains(fields[0], "=") {
		if use, err = parseOptions(fields[0]); err != nil {
			return nil, false, err
		}
		fields = fields[1:]
	}
	switch {
	case len(fields) < 2:
		return nil, false, errors.New("not a line such as \"release@example.com namespaces=\"podrun\" ssh-ed25519 KEY\"")
	case !slices.Contains(keyTypes, fields[0]):
		return nil, false, fmt.Errorf("neither an option nor a type of key that podrun supports (%s)", strings.Join(keyTypes, ", "))
	}
	blob, err := base64.StdEncoding.DecodeString(fields[1])
	if err != nil {
		return nil, false, errors.New("the key is not base64")
	}
	if key, err = ssh.ParsePublicKey(blob); err != nil || key.Type() != fields[0] {
		return nil, false, fmt.Errorf("not a key of the type %s", fields[0])
	}
	if c, ok := key.(ssh.CryptoPublicKey); ok {
		if r, ok := c.CryptoPublicKey().(*rsa.PublicKey); ok && r.N.BitLen() < minRSA {
			return nil, false, fmt.Errorf("the RSA key has less than %d bits", minRSA)
		}
	}
	return key, use, nil
}

// parseOptions parses the options of a line. It reports whether the key may sign in the namespace.
func parseOptions(options string) (use bool, err error) {
	value, ok := strings.CutPrefix(options, `namespaces="`)
	list, rest, closed := strings.Cut(value, `"`)
	if !ok || !closed || rest != "" {
		return false, errors.New("only the option namespaces=\"...\" is supported (not cert-authority, and not valid-after and valid-before, because the clock of a device may be wrong)")
	}
	names := strings.Split(list, ",")
	if strings.ContainsAny(list, "*?!\\") || slices.Contains(names, "") {
		return false, errors.New("patterns in namespaces are not supported")
	}
	return slices.Contains(names, Namespace), nil
}

// Verify verifies the armored signature of a message.
func (s Signers) Verify(message, armored []byte) error {
	if len(armored) > MaxSignature {
		return fmt.Errorf("the signature is larger than %d KiB", MaxSignature>>10)
	}
	sig, err := sshsig.Unarmor(armored)
	if err != nil || sig.PublicKey == nil || sig.Signature == nil {
		return errors.New("the signature is not one of 'ssh-keygen -Y sign', or it uses SHA-1")
	}
	if sig.Namespace != Namespace {
		return fmt.Errorf("the signature is for another namespace: sign with 'ssh-keygen -Y sign -n %s'", Namespace)
	}
	at := slices.IndexFunc(s, func(k ssh.PublicKey) bool { return bytes.Equal(k.Marshal(), sig.PublicKey.Marshal()) })
	if at < 0 {
		return fmt.Errorf("the signature is by a key that is not allowed (%s)", ssh.FingerprintSHA256(sig.PublicKey))
	}
	if err := sshsig.Verify(bytes.NewReader(message), sig, s[at], sig.HashAlgorithm, Namespace); err != nil {
		return errors.New("the signature does not match: the signed file has changed, or the signature is of another file")
	}
	return nil
}
