// Command cert-manager is cert-manager's controller with the controllers that issue from an authority of one's own and renew, and no others.
//
// Its own command is in a module that no registry has (cmd/controller, replaced by a folder); the controllers are in the module that all have.
// Left out are ACME, Vault and the shims of Ingress and Gateway, which ask servers that a sandbox has not, and the election of a leader.
package main

import (
	"context"
	"flag"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/pkg/controller"
	"k8s.io/apimachinery/pkg/api/resource"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

const workers = 2

func run(ctx context.Context, kubeconfig, namespace string) error {
	// The same as its command's defaults (internal/apis/config/controller/v1alpha1/defaults.go), where they matter without ACME.
	none := resource.MustParse("0")
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:         kubeconfig,
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		ACMEOptions: controller.ACMEOptions{
			HTTP01SolverResourceRequestCPU:    none,
			HTTP01SolverResourceRequestMemory: none,
			HTTP01SolverResourceLimitsCPU:     none,
			HTTP01SolverResourceLimitsMemory:  none,
		},
		SchedulerOptions: controller.SchedulerOptions{MaxConcurrentChallenges: 60},
		IssuerOptions:    controller.IssuerOptions{ClusterResourceNamespace: namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour,
			CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	own, err := factory.Build()
	if err != nil {
		return err
	}
	failed := make(chan error, len(controller.Known()))
	for name, build := range controller.Known() {
		each, err := build(factory)
		if err != nil {
			return err
		}
		go func() {
			log.Printf("starting %s", name)
			failed <- each.Run(workers, ctx)
		}()
	}
	own.SharedInformerFactory.Start(ctx.Done())
	own.KubeSharedInformerFactory.Start(ctx.Done())
	own.HTTP01ResourceMetadataInformersFactory.Start(ctx.Done())
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
		return nil
	}
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "who to ask, and as whom")
	namespace := flag.String("cluster-resource-namespace", "cert-manager", "where the secrets of ClusterIssuers are")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *namespace); err != nil {
		log.Fatal(err)
	}
}
