// Command control-plane is etcd, kube-apiserver, kube-controller-manager, kube-scheduler and kwok in one executable.
//
// It runs the program whose name it is called by (a symbolic link each). Linking the five once, from one set of compiled packages,
// is what makes the first build of the sandbox bearable on two cores; each program is otherwise exactly its upstream main.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJobs name time zones

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kwokconfig "sigs.k8s.io/kwok/pkg/config"
	kwok "sigs.k8s.io/kwok/pkg/kwok/cmd"
	kwoklog "sigs.k8s.io/kwok/pkg/log"
	"sigs.k8s.io/kwok/pkg/utils/signals"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		kubernetes(apiserver.NewAPIServerCommand())
	case "kube-controller-manager":
		kubernetes(controllermanager.NewControllerManagerCommand())
	case "kube-scheduler":
		kubernetes(scheduler.NewSchedulerCommand())
	case "kwok":
		simulator()
	default:
		fmt.Fprintf(os.Stderr, "%s is no program of this executable: call it as etcd, kube-apiserver, kube-controller-manager, kube-scheduler or kwok\n", name)
		os.Exit(2)
	}
}

func kubernetes(command *cobra.Command) {
	os.Exit(cli.Run(command))
}

// simulator is kwok's own main: its configuration is read before the command exists, because flags take their defaults from it.
func simulator() {
	// cobra adds the process-wide flags to every command, and Kubernetes' --version is not the boolean that kwok's command expects.
	pflag.CommandLine = pflag.NewFlagSet("kwok", pflag.ExitOnError)

	flags := pflag.NewFlagSet("global", pflag.ContinueOnError)
	flags.ParseErrorsAllowlist.UnknownFlags = true
	flags.Usage = func() {}

	ctx, _ := kwoklog.InitFlags(signals.SetupSignalContext(), flags)
	ctx, err := kwokconfig.InitFlags(ctx, flags)
	if err != nil {
		fmt.Fprintln(os.Stderr, flags.FlagUsages())
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	command := kwok.NewCommand(ctx)
	command.PersistentFlags().AddFlagSet(flags)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
