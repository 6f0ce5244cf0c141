package generate

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Data is the content of a ConfigMap or Secret. Use NewData.
type Data struct {
	values map[string][]byte
}

// NewData returns empty data.
func NewData() *Data { return &Data{values: map[string][]byte{}} }

// Add adds a key with its value. It rejects an invalid or duplicate key.
func (d *Data) Add(key string, value []byte) error {
	if wrong := validation.IsConfigMapKey(key); len(wrong) > 0 {
		return fmt.Errorf("%q is not a valid key: %s", key, strings.Join(wrong, ", "))
	}
	if _, ok := d.values[key]; ok {
		return fmt.Errorf("the key %q is given twice", key)
	}
	d.values[key] = value
	return nil
}

// AddPair adds an entry of the form KEY=VALUE. The argument flag is the name of the flag with
// the pair, for errors.
func (d *Data) AddPair(flag, pair string) error {
	key, value, ok := strings.Cut(pair, "=")
	if !ok || key == "" {
		return fmt.Errorf("--%s: %q is not of the form KEY=VALUE", flag, key)
	}
	if err := d.Add(key, []byte(value)); err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return nil
}

// ConfigMap returns a ConfigMap. If a value is not UTF-8, it is in binaryData.
func (d *Data) ConfigMap(name string) *corev1.ConfigMap {
	m := &corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	for key, value := range d.values {
		if utf8.Valid(value) {
			if m.Data == nil {
				m.Data = map[string]string{}
			}
			m.Data[key] = string(value)
			continue
		}
		if m.BinaryData == nil {
			m.BinaryData = map[string][]byte{}
		}
		m.BinaryData[key] = value
	}
	return m
}

// Secret returns a Secret of the given type; "" means Opaque.
func (d *Data) Secret(name string, kind corev1.SecretType) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Type:       kind,
		Data:       d.values,
	}
}

// Registry are the credentials of kubectl create secret docker-registry.
type Registry struct{ Server, Username, Password, Email string }

// Secret returns a Secret of type kubernetes.io/dockerconfigjson.
func (r Registry) Secret(name string) (*corev1.Secret, error) {
	if r.Username == "" || r.Password == "" {
		return nil, errors.New("--docker-username and --docker-password are required")
	}
	if r.Server == "" {
		// The URL is kubectl's default, and docker's name of Docker Hub.
		r.Server = "https://index.docker.io/v1/"
	}
	entry := map[string]string{"username": r.Username, "password": r.Password,
		"auth": base64.StdEncoding.EncodeToString([]byte(r.Username + ":" + r.Password))}
	if r.Email != "" {
		entry["email"] = r.Email
	}
	config, err := json.Marshal(map[string]any{"auths": map[string]any{r.Server: entry}})
	if err != nil {
		return nil, err
	}
	d := &Data{values: map[string][]byte{corev1.DockerConfigJsonKey: config}}
	return d.Secret(name, corev1.SecretTypeDockerConfigJson), nil
}

// TLSSecret returns a Secret of type kubernetes.io/tls from two PEM files, which must belong
// together.
func TLSSecret(name string, cert, key []byte) (*corev1.Secret, error) {
	if _, err := tls.X509KeyPair(cert, key); err != nil {
		return nil, fmt.Errorf("--cert and --key: %w", err)
	}
	d := &Data{values: map[string][]byte{corev1.TLSCertKey: cert, corev1.TLSPrivateKeyKey: key}}
	return d.Secret(name, corev1.SecretTypeTLS), nil
}
