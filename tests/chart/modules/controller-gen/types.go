// Package types names the Go types that controller-gen reads, so that go.mod pins their module.
package types

import _ "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
