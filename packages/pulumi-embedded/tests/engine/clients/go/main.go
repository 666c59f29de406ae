// The Automation API of Go, driving whatever answers as `pulumi` on the PATH.
// It prints what it was told, one JSON object; what fails is recorded under its name and the rest goes on.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"

	"github.com/pulumi/pulumi/sdk/v3/go/auto"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/events"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optdestroy"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/opthistory"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optpreview"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrefresh"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optremove"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optrename"
	"github.com/pulumi/pulumi/sdk/v3/go/auto/optup"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi"
	"github.com/pulumi/pulumi/sdk/v3/go/pulumi/config"
)

var said = map[string]any{}

// note keeps the answer, or the first line of the refusal.
func note(name string, value any, err error) {
	if err != nil {
		lines := strings.Split(err.Error(), "\n")
		for _, line := range lines {
			if strings.HasPrefix(line, "stderr:") || strings.HasPrefix(line, "error:") {
				lines[0] += " | " + line
			}
		}
		said[name] = map[string]any{"refused": lines[0]}
		return
	}
	said[name] = value
}

type Thing struct {
	pulumi.CustomResourceState
	Arn pulumi.StringOutput `pulumi:"arn"`
}

func thing(ctx *pulumi.Context, name string, inputs pulumi.Map, opts ...pulumi.ResourceOption) (*Thing, error) {
	var made Thing
	err := ctx.RegisterResource("mem:index:Thing", name, inputs, &made, opts...)
	return &made, err
}

func program(ctx *pulumi.Context) error {
	settings := config.New(ctx, "")
	a, err := thing(ctx, "a", pulumi.Map{"value": pulumi.String(settings.Require("value"))})
	if err != nil {
		return err
	}
	var group struct{ pulumi.ResourceState }
	if err := ctx.RegisterComponentResource("proj:index:Group", "group", &group); err != nil {
		return err
	}
	if _, err := thing(ctx, "b", pulumi.Map{"value": a.Arn, "secret": settings.RequireSecret("password")}, pulumi.Parent(&group),
		pulumi.DependsOn([]pulumi.Resource{a})); err != nil {
		return err
	}
	if err := ctx.RegisterResourceOutputs(&group, pulumi.Map{"done": pulumi.Bool(true)}); err != nil {
		return err
	}
	var nested struct{ Replicas int }
	settings.RequireObject("shape", &nested)
	ctx.Export("replicas", pulumi.Int(nested.Replicas))
	ctx.Export("arn", a.Arn)
	ctx.Export("password", settings.RequireSecret("password"))
	return nil
}

func main() {
	ctx := context.Background()
	local()
	env := auto.EnvVars(map[string]string{"PULUMI_CONFIG_PASSPHRASE": "pw"})
	_, err := auto.SelectStackInlineSource(ctx, "none", "proj", program, env)
	said["missing"] = auto.IsSelectStack404Error(err)
	s, err := auto.NewStackInlineSource(ctx, "dev", "proj", program, env)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_, err = auto.NewStackInlineSource(ctx, "dev", "proj", program, env)
	said["twice"] = auto.IsCreateStack409Error(err)
	note("set", true, s.SetAllConfig(ctx, auto.ConfigMap{"value": {Value: "7"}, "password": {Value: "not-in-the-clear", Secret: true}, "other:x": {Value: "1"}}))
	note("set path", true, s.SetConfigWithOptions(ctx, "shape.Replicas", auto.ConfigValue{Value: "3"}, &auto.ConfigOptions{Path: true}))
	note("set dashes", true, s.SetConfig(ctx, "dashes", auto.ConfigValue{Value: "--not-a-flag"}))
	note("set json", true, s.SetAllConfigJson(ctx, `{"proj:json":{"value":"{\"a\":1}","objectValue":{"a":1}}}`, nil))
	all, err := s.GetAllConfig(ctx)
	note("config", all, err)
	one, err := s.GetConfigWithOptions(ctx, "shape.Replicas", &auto.ConfigOptions{Path: true})
	note("get path", one, err)
	_, err = s.GetConfig(ctx, "nothing")
	said["get missing"] = err != nil
	note("rm", true, s.RemoveConfig(ctx, "dashes"))
	note("rm-all", true, s.RemoveAllConfig(ctx, []string{"other:x", "json"}))
	all, err = s.GetAllConfig(ctx)
	note("config left", len(all), err)

	channel := make(chan events.EngineEvent)
	seen := map[string]int{}
	drained := make(chan bool)
	go func() {
		for event := range channel {
			switch {
			case event.ResourcePreEvent != nil:
				seen["pre "+string(event.ResourcePreEvent.Metadata.Op)]++
			case event.SummaryEvent != nil:
				seen["summary"]++
			case event.PreludeEvent != nil:
				seen["prelude"]++
			case event.Error != nil:
				seen["error "+event.Error.Error()]++
			}
		}
		drained <- true
	}()
	planned, err := s.Preview(ctx, optpreview.EventStreams(channel), optpreview.Diff(), optpreview.Message("a \"quoted\" note"))
	<-drained
	note("preview", planned.ChangeSummary, err)
	said["preview events"] = seen
	up, err := s.Up(ctx, optup.Message("first"), optup.Parallel(4), optup.UserAgent("checker"), optup.ShowSecrets(false))
	note("up", up.Summary.ResourceChanges, err)
	said["up summary"] = map[string]any{"kind": up.Summary.Kind, "result": up.Summary.Result, "message": up.Summary.Message, "version": up.Summary.Version, "end": up.Summary.EndTime != nil}
	note("outputs", up.Outputs, nil)
	_, err = s.Up(ctx, optup.ExpectNoChanges(), optup.Refresh(), optup.SuppressOutputs(), optup.SuppressProgress())
	note("again", err == nil, err)
	urn := "urn:pulumi:dev::proj::mem:index:Thing::a"
	up, err = s.Up(ctx, optup.Replace([]string{urn}), optup.Target([]string{urn}), optup.TargetDependents())
	note("replace", up.Summary.ResourceChanges, err)
	up, err = s.Up(ctx, optup.Exclude([]string{urn}), optup.ExcludeDependents(), optup.ContinueOnError())
	note("exclude", up.Summary.ResourceChanges, err)
	refreshed, err := s.Refresh(ctx, optrefresh.Message("look"), optrefresh.ClearPendingCreates())
	note("refresh", refreshed.Summary.ResourceChanges, err)
	_, err = s.Refresh(ctx, optrefresh.RunProgram(true))
	note("run program", err == nil, err)
	pr, err := s.PreviewRefresh(ctx)
	note("preview refresh", pr.ChangeSummary, err)
	pd, err := s.PreviewDestroy(ctx)
	note("preview destroy", pd.ChangeSummary, err)
	_, err = s.Preview(ctx, optpreview.Plan(filepath.Join(os.TempDir(), "plan.json")))
	note("plan", err == nil, err)
	_, err = s.Preview(ctx, optpreview.ImportFile(filepath.Join(os.TempDir(), "import.json")))
	note("import file", err == nil, err)
	_, err = s.ImportResources(ctx)
	note("import", err == nil, err)

	note("tag set", true, s.SetTag(ctx, "owner", "vision"))
	tag, err := s.GetTag(ctx, "owner")
	note("tag get", tag, err)
	tags, err := s.ListTags(ctx)
	note("tag ls", tags, err)
	note("tag rm", true, s.RemoveTag(ctx, "owner"))
	environments, err := s.ListEnvironments(ctx)
	note("env ls", environments, err)
	note("env add", true, s.AddEnvironments(ctx, "e"))
	info, err := s.Info(ctx)
	note("info", map[string]any{"name": info.Name, "current": info.Current, "resources": info.ResourceCount, "inProgress": info.UpdateInProgress, "when": info.LastUpdate != ""}, err)
	stacks, err := s.Workspace().ListStacks(ctx)
	note("stacks", len(stacks), err)
	who, err := s.Workspace().WhoAmIDetails(ctx)
	note("whoami", map[string]any{"user": who.User != "", "url": strings.HasPrefix(who.URL, "file://"), "organizations": who.Organizations}, err)
	user, err := s.Workspace().WhoAmI(ctx)
	note("whoami plain", user == who.User, err)
	said["version"] = s.Workspace().PulumiVersion()
	plugins, err := s.Workspace().ListPlugins(ctx)
	names := []string{}
	for _, plugin := range plugins {
		names = append(names, fmt.Sprintf("%s %s %v", plugin.Name, plugin.Kind, plugin.Version))
	}
	sort.Strings(names)
	note("plugins", names, err)
	note("plugin install", true, s.Workspace().InstallPlugin(ctx, "mem", "v1.0.0"))
	note("plugin rm", true, s.Workspace().RemovePlugin(ctx, "mem", "v1.0.0"))
	note("install", true, s.Workspace().Install(ctx, &auto.InstallOptions{NoPlugins: true}))
	note("secrets provider", true, s.ChangeSecretsProvider(ctx, "passphrase", &auto.ChangeSecretsProviderOptions{NewPassphrase: strptr("pw2")}))
	note("new passphrase", true, s.Workspace().SetEnvVars(map[string]string{"PULUMI_CONFIG_PASSPHRASE": "pw2"}))
	note("secrets provider back", true, s.ChangeSecretsProvider(ctx, "passphrase", &auto.ChangeSecretsProviderOptions{NewPassphrase: strptr("pw")}))
	note("old passphrase", true, s.Workspace().SetEnvVars(map[string]string{"PULUMI_CONFIG_PASSPHRASE": "pw"}))
	org, err := s.Workspace().(*auto.LocalWorkspace).OrgGetDefault(ctx)
	note("org", org, err)
	history, err := s.History(ctx, 3, 1, opthistory.ShowSecrets(true))
	kinds := []string{}
	for _, update := range history {
		kinds = append(kinds, fmt.Sprintf("%s %s %s", update.Kind, update.Result, update.Config["proj:password"].Value))
	}
	note("history", kinds, err)
	exported, err := s.Export(ctx)
	var deployment struct{ Resources []any }
	if err == nil {
		err = json.Unmarshal(exported.Deployment, &deployment)
	}
	note("export", map[string]any{"version": exported.Version, "resources": len(deployment.Resources)}, err)
	note("import state", true, s.Import(ctx, exported))
	refreshedConfig, err := s.RefreshConfig(ctx)
	note("config refresh", len(refreshedConfig), err)
	note("cancel", true, s.Cancel(ctx))
	note("rm with resources", true, s.Workspace().RemoveStack(ctx, "dev"))
	// This client asks for the history under the old name afterwards, which no engine can answer: what counts is the stack.
	_, _ = s.Rename(ctx, optrename.StackName("dev2"))
	renamed, err := auto.SelectStackInlineSource(ctx, "dev2", "proj", program, env, auto.WorkDir(s.Workspace().WorkDir()))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	destroyed, err := renamed.Destroy(ctx, optdestroy.Message("end"), optdestroy.Refresh())
	note("destroy", destroyed.Summary.ResourceChanges, err)
	note("rm stack", true, renamed.Workspace().RemoveStack(ctx, "dev2", optremove.Force()))
	text, _ := json.MarshalIndent(said, "", " ")
	fmt.Println(string(text))
}

func strptr(text string) *string { return &text }

// local drives a Python project on disk, the second kind of program.
func local() {
	ctx := context.Background()
	s, err := auto.UpsertStackLocalSource(ctx, "local", os.Args[1], auto.EnvVars(map[string]string{"PULUMI_CONFIG_PASSPHRASE": "pw"}))
	if err != nil {
		note("local", nil, err)
		return
	}
	note("local set", true, s.SetAllConfig(ctx, auto.ConfigMap{"value": {Value: "7"}, "password": {Value: "not-in-the-clear", Secret: true}}))
	up, err := s.Up(ctx)
	note("local up", up.Summary.ResourceChanges, err)
	note("local outputs", up.Outputs, nil)
	destroyed, err := s.Destroy(ctx, optdestroy.Remove())
	note("local destroy", destroyed.Summary.ResourceChanges, err)
}
