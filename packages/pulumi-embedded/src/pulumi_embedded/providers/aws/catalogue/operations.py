"""Running the platform: queues, topics, budgets, logs, alarms, events."""

import json
import re

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws.catalogue.references import EXTERNAL_KEY, EXTERNAL_ROLE, OTHER_ACCOUNT
from pulumi_embedded.providers.aws.kind import FALSE, TRUE, AwsKind, Facts, Naming, Ref, account, const, later, made
from pulumi_embedded.providers.aws.rules import Failures, among, between, exclusive, json_text, matches, numbers_among, one_of, policy

_SQS = "SQS API reference, SetQueueAttributes"
_LOGS = "CloudWatch Logs API reference, PutRetentionPolicy"
_RETENTION = (0, 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731, 1096, 1827, 2192, 2557, 2922, 3288, 3653)
_LEVELS = 15
"""Of a parameter's name (Systems Manager API reference, PutParameter)."""
_VALUE_LIMITS = {"Standard": 4096, "Advanced": 8192}
_EMAIL = r"[^@\s]+@[^@\s]+\.[^@\s]+"
_QUEUE = Ref("queue URL", "falls", "QueueDoesNotExist")
_TOPIC = Ref("topic ARN", "falls", "NotFound")


def _fifo(inputs: Properties, _: str) -> Failures:
    name, fifo = inputs.get("name"), inputs.get("fifoQueue", inputs.get("fifoTopic", False))
    if isinstance(name, str) and name != UNKNOWN and name.endswith(".fifo") != (fifo is True):
        yield CheckFailure("name", f'"{name}": FIFO queues and topics, and only they, have names that end in .fifo')


def _queue_encryption(inputs: Properties, _: str) -> Failures:
    if inputs.get("kmsMasterKeyId") and inputs.get("sqsManagedSseEnabled") is True:
        yield CheckFailure("sqsManagedSseEnabled", "conflicts with kmsMasterKeyId; give only one")


def _redrive(inputs: Properties, _: str) -> Failures:
    text = inputs.get("redrivePolicy")
    if not isinstance(text, str) or UNKNOWN in text:
        return
    try:
        document = json.loads(text)
    except ValueError:
        yield CheckFailure("redrivePolicy", "must be a JSON object as text")
        return
    if not isinstance(document, dict) or not document.get("deadLetterTargetArn"):
        yield CheckFailure("redrivePolicy", "InvalidAttributeValue: deadLetterTargetArn is missing")
        return
    count = document.get("maxReceiveCount")
    if not (isinstance(count, int) and 1 <= count <= 1000):
        yield CheckFailure("redrivePolicy", f"InvalidAttributeValue: maxReceiveCount must be a whole number from 1 to 1000, not {count!r}")


def _money(inputs: Properties, _: str) -> Failures:
    for name in ("limitAmount",):
        value = inputs.get(name)
        if isinstance(value, str) and value != UNKNOWN:
            try:
                positive = float(value) > 0
            except ValueError:
                positive = False
            if not positive:
                yield CheckFailure(name, f'"{value}" is no positive amount')


def _subscribers(inputs: Properties, _: str) -> Failures:
    for index, item in enumerate(inputs.get("notifications") or []):
        if isinstance(item, dict) and not (item.get("subscriberEmailAddresses") or item.get("subscriberSnsTopicArns")):
            yield CheckFailure(f"notifications[{index}]", "has no subscriber; give subscriberEmailAddresses or subscriberSnsTopicArns")


def _budget_name(facts: Facts) -> str:
    return f"{facts.account}:{facts.inputs.get('name')}" if facts.known else UNKNOWN


def _queue_url(facts: Facts) -> str:
    """The URL of a queue; clients with an endpoint of their own send it as a name only."""
    return facts.text("https://sqs.{region}.amazonaws.com/{account}/{name}")


def _parameter_arn(facts: Facts) -> str:
    """A name in a hierarchy begins with the slash that stands in the ARN anyway."""
    name = facts.inputs.get("name")
    return facts.text("arn:aws:ssm:{region}:{account}:parameter/") + str(name).removeprefix("/") if facts.known else UNKNOWN


def _parameter_name(inputs: Properties, _: str) -> Failures:
    name = inputs.get("name")
    if not isinstance(name, str) or name == UNKNOWN:
        return
    if not re.fullmatch(r"[A-Za-z0-9_.\-/]+", name) or ("/" in name and not name.startswith("/")):
        yield CheckFailure("name", f'"{name}": ValidationException: letters, digits, ".-_", and a "/" before each level of a hierarchy')
    if re.match(r"/?(aws|ssm)", name, re.IGNORECASE):
        yield CheckFailure("name", f'"{name}": ValidationException: no access to reserved parameter name; none begins with aws or ssm')
    if name.count("/") > _LEVELS:
        yield CheckFailure("name", f'"{name}": HierarchyLevelLimitExceededException: a hierarchy has at most {_LEVELS} levels')


def _parameter_value(inputs: Properties, _: str) -> Failures:
    value, longest = inputs.get("value"), _VALUE_LIMITS.get(str(inputs.get("tier") or "Standard"), 8192)
    if isinstance(value, str) and UNKNOWN not in value and len(value.encode()) > longest:
        yield CheckFailure(
            "value", f"ValidationException: has {len(value.encode())} bytes; a parameter of this tier holds at most {longest}"
        )


_QUEUE_RULES = (
    between("delaySeconds", 0, 900, _SQS),
    between("maxMessageSize", 1024, 1_048_576, _SQS),
    between("messageRetentionSeconds", 60, 1_209_600, _SQS),
    between("receiveWaitTimeSeconds", 0, 20, _SQS),
    between("visibilityTimeoutSeconds", 0, 43_200, _SQS),
    between("kmsDataKeyReusePeriodSeconds", 60, 86_400, _SQS),
    among("deduplicationScope", ("messageGroup", "queue"), _SQS),
    among("fifoThroughputLimit", ("perQueue", "perMessageGroupId"), _SQS),
    matches("name", r"[A-Za-z0-9_-]{1,80}|[A-Za-z0-9_-]{1,75}\.fifo", "a queue name of at most 80 letters, digits, - and _"),
    policy("policy", "resource"),
    json_text("redriveAllowPolicy"),
    _redrive,
    _fifo,
    _queue_encryption,
)

KINDS = (
    AwsKind(
        type="aws:sqs/queue:Queue",
        id=_queue_url,
        arn="arn:aws:sqs:{region}:{account}:{name}",
        named=Naming(longest=80),
        references={"kmsMasterKeyId": Ref("KMS key", "free", "KmsInvalidState", EXTERNAL_KEY)},
        handles={"queue URL": ("id",), "queue ARN": ("arn",)},
        outputs={
            "url": "{id}",
            "delaySeconds": const(0),
            "maxMessageSize": const(262_144),
            "messageRetentionSeconds": const(345_600),
            "receiveWaitTimeSeconds": const(0),
            "visibilityTimeoutSeconds": const(30),
            "sqsManagedSseEnabled": lambda f: not f.inputs.get("kmsMasterKeyId"),
            "kmsDataKeyReusePeriodSeconds": const(300),
            "fifoQueue": FALSE,
            "contentBasedDeduplication": FALSE,
            "policy": later(""),
            "redrivePolicy": later(""),
            "redriveAllowPolicy": later(""),
        },
        replaces=("name", "namePrefix", "fifoQueue"),
        rules=_QUEUE_RULES,
    ),
    AwsKind(
        type="aws:sqs/queuePolicy:QueuePolicy",
        id="{queueUrl}",
        references={"queueUrl": _QUEUE},
        replaces=("queueUrl",),
        rules=(policy("policy", "resource"),),
    ),
    AwsKind(
        type="aws:sqs/redrivePolicy:RedrivePolicy",
        id="{queueUrl}",
        references={"queueUrl": _QUEUE},
        replaces=("queueUrl",),
        rules=(_redrive,),
    ),
    AwsKind(
        type="aws:sqs/redriveAllowPolicy:RedriveAllowPolicy",
        id="{queueUrl}",
        references={"queueUrl": _QUEUE},
        replaces=("queueUrl",),
        rules=(json_text("redriveAllowPolicy"),),
    ),
    AwsKind(
        type="aws:sns/topic:Topic",
        id="{arn}",
        arn="arn:aws:sns:{region}:{account}:{name}",
        named=Naming(longest=256),
        references={"kmsMasterKeyId": Ref("KMS key", "free", "KMSNotFound", EXTERNAL_KEY)},
        handles={"topic ARN": ("id",)},
        outputs={
            "owner": account,
            "beginningArchiveTime": later(""),
            "signatureVersion": const(1),
            "tracingConfig": later("PassThrough"),
            "policy": later(""),
            "fifoTopic": FALSE,
        },
        replaces=("name", "namePrefix", "fifoTopic"),
        rules=(
            _fifo,
            policy("policy", "resource"),
            numbers_among("signatureVersion", (1, 2), "SNS API reference"),
            matches("name", r"[A-Za-z0-9_-]{1,256}|[A-Za-z0-9_-]{1,251}\.fifo", "a topic name of letters, digits, - and _"),
        ),
    ),
    AwsKind(
        type="aws:sns/topicPolicy:TopicPolicy",
        id="{arn}",
        references={"arn": _TOPIC},
        outputs={"owner": account},
        replaces=("arn",),
        rules=(policy("policy", "resource"),),
    ),
    AwsKind(
        type="aws:sns/topicSubscription:TopicSubscription",
        id="{topic}:{hex}",
        arn="{topic}:{hex}",
        references={"topic": _TOPIC, "subscriptionRoleArn": Ref("role ARN", "free", "InvalidParameter", EXTERNAL_ROLE)},
        outputs={
            "confirmationWasAuthenticated": lambda f: f.inputs.get("protocol") in ("sqs", "lambda", "firehose") if f.known else UNKNOWN,
            "ownerId": account,
            "pendingConfirmation": lambda f: f.inputs.get("protocol") in ("email", "http", "https") if f.known else UNKNOWN,
            "confirmationTimeoutInMinutes": const(1),
            "endpointAutoConfirms": FALSE,
            "rawMessageDelivery": FALSE,
        },
        replaces=("endpoint", "protocol", "topic"),
        rules=(
            among(
                "protocol", ("application", "email", "email-json", "firehose", "http", "https", "lambda", "sms", "sqs"), "SNS API reference"
            ),
            json_text("filterPolicy"),
        ),
    ),
    AwsKind(
        type="aws:budgets/budget:Budget",
        operation="budgets.CreateBudget.Budget",
        api={
            "name": "BudgetName",
            "notifications": "budgets.CreateBudget:NotificationsWithSubscribers.Notification",
            "notifications.subscriberEmailAddresses": "",
            "notifications.subscriberSnsTopicArns": "",
            "costFilters": "",
            "limitUnit": "BudgetLimit.Unit",
            "plannedLimits": "",
            "filterExpression": "",
            "tags": "",
        },
        id=_budget_name,
        arn="arn:aws:budgets::{account}:budget/{name}",
        named=Naming(longest=100),
        references={"notifications[].subscriberSnsTopicArns[]": Ref("topic ARN", "free", "NotFoundException", OTHER_ACCOUNT)},
        handles={"budget": ("name",)},
        outputs={
            "accountId": account,
            "timePeriodStart": lambda f: f.created.strftime("%Y-%m-01_00:00") if f.created else UNKNOWN,
            "timePeriodEnd": const("2087-06-15_00:00"),
        },
        replaces=("name", "namePrefix", "accountId", "billingViewArn"),
        rules=(
            matches("notifications[].subscriberEmailAddresses[]", _EMAIL, "an email address"),
            matches("timePeriodStart", r"\d{4}-\d{2}-\d{2}_\d{2}:\d{2}", "a time of the form 2026-11-01_00:00"),
            exclusive("costFilters", "filterExpression"),
            one_of("limitAmount", "plannedLimits", "autoAdjustData"),
            _money,
            _subscribers,
        ),
    ),
    AwsKind(
        type="aws:cloudwatch/logGroup:LogGroup",
        operation="logs.CreateLogGroup",
        api={"name": "logGroupName"},
        id="{name}",
        arn="arn:aws:logs:{region}:{account}:log-group:{name}",
        named=Naming(longest=512),
        references={"kmsKeyId": Ref("KMS key", "free", "InvalidParameterException", EXTERNAL_KEY)},
        handles={"log group": ("name",), "log group ARN": ("arn",), "log destination": ("arn",)},
        outputs={
            "logGroupClass": const("STANDARD"),
            "retentionInDays": const(0),
            "skipDestroy": FALSE,
            "deletionProtectionEnabled": FALSE,
        },
        replaces=("name", "namePrefix", "logGroupClass"),
        rules=(numbers_among("retentionInDays", _RETENTION, _LOGS),),
    ),
    AwsKind(
        type="aws:ssm/parameter:Parameter",
        operation="ssm.PutParameter",
        id="{name}",
        arn=_parameter_arn,
        named=Naming(longest=1011),
        concealed=(),
        outputs={"version": later(1), "tier": const("Standard"), "dataType": const("text"), "hasValueWo": FALSE},
        volatile=("version",),
        replaces=("name",),
        rules=(_parameter_name, _parameter_value, one_of("value", "insecureValue", "valueWo")),
        source="hashicorp/terraform-provider-aws, internal/service/ssm/parameter.go",
    ),
    AwsKind(
        type="aws:cloudwatch/logResourcePolicy:LogResourcePolicy",
        operation="logs.PutResourcePolicy",
        id=lambda f: str(f.inputs.get("policyName") or f.inputs.get("resourceArn")) if f.known else UNKNOWN,
        outputs={"policyScope": later("ACCOUNT"), "revisionId": "{hex}"},
        replaces=("policyName", "resourceArn"),
        rules=(policy("policyDocument", "resource", 5120), one_of("policyName", "resourceArn")),
    ),
    AwsKind(
        type="aws:cloudwatch/metricAlarm:MetricAlarm",
        operation="cloudwatch.PutMetricAlarm",
        api={"name": "AlarmName", "metricQueries": "Metrics", "metricQueries.metric.stat": "Metrics.MetricStat.Stat"},
        id="{name}",
        arn="arn:aws:cloudwatch:{region}:{account}:alarm:{name}",
        named=Naming(longest=255, prefix=""),
        references={
            "alarmActions[]": Ref("topic ARN", "free", "ValidationError", rf"{OTHER_ACCOUNT}|arn:aws:(automate|swf|ssm|lambda):.*")
        },
        handles={"alarm": ("name",)},
        outputs={
            "actionsEnabled": TRUE,
            "treatMissingData": const("missing"),
            "evaluateLowSampleCountPercentiles": later(""),
        },
        replaces=("name",),
        rules=(
            exclusive("metricName", "metricQueries", "evaluationCriteria"),
            exclusive("statistic", "extendedStatistic"),
            among("treatMissingData", ("missing", "ignore", "breaching", "notBreaching"), "CloudWatch API reference"),
        ),
    ),
    AwsKind(
        type="aws:cloudwatch/eventRule:EventRule",
        operation="events.PutRule",
        id=lambda f: str(f.inputs.get("name")) if f.known else UNKNOWN,
        arn="arn:aws:events:{region}:{account}:rule/{name}",
        named=Naming(longest=64),
        references={"roleArn": Ref("role ARN", "free", "ValidationException", EXTERNAL_ROLE)},
        handles={"event rule": ("name",)},
        outputs={"eventBusName": const("default"), "state": const("ENABLED"), "forceDestroy": FALSE},
        replaces=("name", "namePrefix", "eventBusName"),
        rules=(json_text("eventPattern"), exclusive("isEnabled", "state")),
    ),
    AwsKind(
        type="aws:cloudwatch/eventTarget:EventTarget",
        operation="events.PutTargets.Targets",
        api={"eventBusName": "events.PutTargets:EventBusName", "rule": "events.PutTargets:Rule", "targetId": "Id"},
        id=lambda f: f"{f.inputs['rule']}-{f.inputs.get('targetId') or f.digest('target')[:12]}" if f.known else UNKNOWN,
        references={
            "rule": Ref("event rule", "blocks", "ResourceNotFoundException"),
            "arn": Ref("queue ARN", "free", "ValidationException", rf"{OTHER_ACCOUNT}|arn:aws:(?!sqs:).*"),
            "roleArn": Ref("role ARN", "free", "ValidationException", EXTERNAL_ROLE),
        },
        outputs={"eventBusName": const("default"), "targetId": made("target-"), "forceDestroy": FALSE},
        replaces=("rule", "eventBusName", "targetId"),
    ),
)
