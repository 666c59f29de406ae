// Modules that carry the CRDs of the platform's add-ons. Nothing here is compiled.
module headway/sandbox/crds

go 1.26.0

require (
	github.com/cert-manager/cert-manager v1.21.2
	github.com/kedacore/keda/v2 v2.20.2
	github.com/prometheus-operator/prometheus-operator v0.93.0
	istio.io/api v1.31.4
	sigs.k8s.io/gateway-api v1.6.0
	sigs.k8s.io/gateway-api-inference-extension v1.5.0
)
