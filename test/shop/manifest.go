// Package shop tests the Services of a running podrun: a client pod calls a Service with several pods,
// whose pods call a second Service, while the test kills containers and pods. test/embedded and
// test/guest use it.
package shop

import (
	"fmt"
	"time"
)

// Settings are the settings that the test requires: the back-off of the containers that it kills has a
// maximum of one second.
const Settings = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
evictionHard: {memory.available: 1Mi}
`

// Manifest returns the manifest of the shop. The image contains busybox and its links sh and httpd. dir is the
// directory of this host into which the client writes a line for each request: the uptime when it began and
// when it ended, and the answer. pause is the time between two requests.
func Manifest(image, dir string, pause time.Duration) string {
	return fmt.Sprintf(manifest, image, dir, pause.Seconds())
}

// The web server answers with its host name and the answer of db. A client gives up later than the
// web server, so that it learns why a request failed.
const manifest = `apiVersion: v1
kind: ConfigMap
metadata: {name: shop}
data:
  order: |
    #!/bin/sh
    read -r name </etc/hostname
    set -- $(busybox timeout 5 busybox wget -q -O - http://db:5432/ 2>&1)
    printf 'Content-Type: text/plain\r\n\r\n%%s: %%s\n' "$name" "$*"
  index.html: |
    stock
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec:
  selector: {app: web}
  ports: [{port: 80, targetPort: http}]
---
apiVersion: v1
kind: Service
metadata: {name: db}
spec:
  selector: {app: db}
  ports: [{port: 5432, targetPort: 8080}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {podrun.dev/replicas: honour}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: web
        image: %[1]s
        command: [httpd, -f, -p, "8080", -h, /www]
        ports: [{name: http, containerPort: 8080}]
        readinessProbe: {periodSeconds: 1, tcpSocket: {port: http}}
        volumeMounts: [{name: scripts, mountPath: /www/cgi-bin}]
      volumes: [{name: scripts, configMap: {name: shop, defaultMode: 0755, items: [{key: order, path: order}]}}]
---
apiVersion: v1
kind: Pod
metadata: {name: db, labels: {app: db}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: db
    image: %[1]s
    command: [httpd, -f, -p, "8080", -h, /data]
    readinessProbe: {periodSeconds: 1, tcpSocket: {port: 8080}}
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, configMap: {name: shop, items: [{key: index.html, path: index.html}]}}]
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: client
    image: %[1]s
    command:
    - sh
    - -c
    - |
      while :; do
        read -r begin rest </proc/uptime
        set -- $(busybox timeout 10 busybox wget -q -O - http://web/cgi-bin/order 2>&1)
        read -r end rest </proc/uptime
        echo "$begin $end $*" >>/shop/requests
        busybox sleep %[3]g
      done
    volumeMounts: [{name: shop, mountPath: /shop}]
  volumes: [{name: shop, hostPath: {path: %[2]s, type: Directory}}]
`
