// The Automation API of Node.js, driving whatever answers as `pulumi` on the PATH; prints what it was told as one JSON object.
const { LocalWorkspace } = require("@pulumi/pulumi/automation");

async function main() {
  const where = { workDir: process.argv[2] };
  const said = {};
  said.missing = await LocalWorkspace.selectStack({ stackName: "missing", ...where }).catch((error) => error.constructor.name);
  const stack = await LocalWorkspace.createOrSelectStack({ stackName: "node", ...where });
  await stack.setConfig("value", { value: "7" });
  await stack.setConfig("password", { value: "not-in-the-clear", secret: true });
  said.config = await stack.getAllConfig();
  const steps = [];
  const planned = await stack.preview({ onEvent: (event) => event.resourcePreEvent && steps.push(event.resourcePreEvent.metadata.op) });
  said.planned = planned.changeSummary;
  said.steps = steps.length;
  const up = await stack.up();
  said.created = up.summary.resourceChanges;
  said.outputs = up.outputs;
  said.again = (await stack.up()).summary.resourceChanges;
  said.history = (await stack.history()).map((entry) => `${entry.kind} ${entry.result}`);
  said.stacks = (await stack.workspace.listStacks()).map((each) => each.name);
  said.user = Boolean((await stack.workspace.whoAmI()).user);
  said.exported = (await stack.exportStack()).deployment.resources.length;
  said.destroyed = (await stack.destroy()).summary.resourceChanges;
  await stack.workspace.removeStack("node");
  said.left = (await stack.workspace.listStacks()).length;
  console.log(JSON.stringify(said));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
