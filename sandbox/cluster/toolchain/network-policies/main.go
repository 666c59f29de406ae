// What kube-network-policies, the reference implementation of SIG Network, says of packets.
//
// Each line of input is a cluster with packets, each line of output whether each of them passes. The engine is private to
// its package, so it is reached by its name for the linker; what is handed over is what the API server would hand over.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"log"
	"net"
	"os"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

type question struct {
	Namespaces []corev1.Namespace
	Pods       []corev1.Pod
	Policies   []networkingv1.NetworkPolicy
	Packets    []struct {
		Source, Target string
		Port           int
		Protocol       corev1.Protocol
	}
}

//go:linkname policiesFor sigs.k8s.io/kube-network-policies/pkg/networkpolicy.(*Controller).getNetworkPoliciesForPod
func policiesFor(c *networkpolicy.Controller, pod *corev1.Pod) []*networkingv1.NetworkPolicy

//go:linkname evaluate sigs.k8s.io/kube-network-policies/pkg/networkpolicy.(*Controller).evaluator
func evaluate(
	c *networkpolicy.Controller, ctx context.Context, policies []*networkingv1.NetworkPolicy, direction networkingv1.PolicyType,
	srcPod *corev1.Pod, srcPort int, dstPod *corev1.Pod, dstIP net.IP, dstPort int, proto corev1.Protocol) bool

// passes asks both ways as its evaluatePacket does, which in this version cannot look up an address that is no pod's.
func passes(engine *networkpolicy.Controller, pods map[string]*corev1.Pod, source, target string, port int, protocol corev1.Protocol) bool {
	const client = 40000
	ctx, from, to := context.Background(), pods[source], pods[target]
	return evaluate(engine, ctx, policiesFor(engine, from), networkingv1.PolicyTypeEgress, from, client, to, net.ParseIP(target), port, protocol) &&
		evaluate(engine, ctx, policiesFor(engine, to), networkingv1.PolicyTypeIngress, to, port, from, net.ParseIP(source), client, protocol)
}

func answer(asked question) []bool {
	clients := kubernetes.NewForConfigOrDie(&rest.Config{Host: "http://127.0.0.1:1"}) // nobody asks it: informers are filled here
	shared := informers.NewSharedInformerFactory(clients, 0)
	policies, core := shared.Networking().V1().NetworkPolicies(), shared.Core().V1()
	engine, err := networkpolicy.NewController(clients, policies, core.Namespaces(), core.Pods(), core.Nodes(), nil, nil, nil,
		networkpolicy.Config{NodeName: "node", NRIdisabled: true})
	if err != nil {
		log.Fatal(err)
	}
	for i := range asked.Namespaces {
		check(core.Namespaces().Informer().GetIndexer().Add(&asked.Namespaces[i]))
	}
	pods := map[string]*corev1.Pod{}
	for i := range asked.Pods {
		for _, address := range asked.Pods[i].Status.PodIPs {
			pods[address.IP] = &asked.Pods[i]
		}
		check(core.Pods().Informer().GetIndexer().Add(&asked.Pods[i]))
	}
	for i := range asked.Policies {
		asServed(&asked.Policies[i].Spec)
		check(policies.Informer().GetIndexer().Add(&asked.Policies[i]))
	}
	passed := []bool{}
	for _, p := range asked.Packets {
		passed = append(passed, passes(engine, pods, p.Source, p.Target, p.Port, p.Protocol))
	}
	return passed
}

// asServed fills in what the API server fills in (pkg/apis/networking/v1/defaults.go), and has no empty lists, as the wire has none.
func asServed(spec *networkingv1.NetworkPolicySpec) {
	if len(spec.PolicyTypes) == 0 {
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) != 0 {
			spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
	if len(spec.Ingress) == 0 {
		spec.Ingress = nil
	}
	if len(spec.Egress) == 0 {
		spec.Egress = nil
	}
	for _, rule := range spec.Ingress {
		overTCP(rule.Ports)
	}
	for _, rule := range spec.Egress {
		overTCP(rule.Ports)
	}
}

func overTCP(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		if ports[i].Protocol == nil {
			tcp := corev1.ProtocolTCP
			ports[i].Protocol = &tcp
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	answers := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked question
		check(json.Unmarshal(lines.Bytes(), &asked))
		check(answers.Encode(answer(asked)))
	}
	check(lines.Err())
}
