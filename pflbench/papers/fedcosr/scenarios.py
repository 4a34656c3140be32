"""The scenarios of the FedCoSR paper's two tables of accuracies, and which runs are of one."""

from pflbench.papers.paper import Column, Config, dataset_of

DATASETS = {"cifar10": "CIFAR-10", "emnist": "EMNIST", "cifar100": "CIFAR-100"}
PARTICIPATION = {20: 1.0, 100: 0.5}  # by number of clients
PARTITIONS = {"dir": ("practical", "beta"), "path": ("pathological", "classes")}

_PRACTICAL = "Practical heterogeneous (\u03b2=0.1, N=20)"
_PATHOLOGICAL = "Pathological heterogeneous (N=20)"
_SCALABILITY = "Scalability (CIFAR-10)"
_CIFAR10 = "Heterogeneity (CIFAR-10 prac.)"
_CIFAR100 = "Heterogeneity (CIFAR-100 path.)"

PRACTICAL = "practical/cifar10/beta=0.1/20"
PATHOLOGICAL = "pathological/cifar10/classes=2/20"
CLASSES = "pathological/cifar100/classes=20/20"
CLIENTS_PRACTICAL = "practical/cifar10/beta=0.1/100"
CLIENTS_PATHOLOGICAL = "pathological/cifar10/classes=2/100"
BETA_LOW = "practical/cifar10/beta=0.01/20"
BETA_HIGH = "practical/cifar10/beta=1/20"
CLASSES_LOW = "pathological/cifar100/classes=10/20"
CLASSES_HIGH = "pathological/cifar100/classes=50/20"

TABLES = {
    "main": (
        Column(PRACTICAL, "CIFAR-10", _PRACTICAL),
        Column("practical/emnist/beta=0.1/20", "EMNIST", _PRACTICAL),
        Column("practical/cifar100/beta=0.1/20", "CIFAR-100", _PRACTICAL),
        Column(PATHOLOGICAL, "CIFAR-10", _PATHOLOGICAL),
        Column("pathological/emnist/classes=10/20", "EMNIST", _PATHOLOGICAL),
        Column(CLASSES, "CIFAR-100", _PATHOLOGICAL),
    ),
    "scalability_heterogeneity": (
        Column(CLIENTS_PRACTICAL, "Prac. N=100", _SCALABILITY, PRACTICAL),
        Column(CLIENTS_PATHOLOGICAL, "Path. N=100", _SCALABILITY, PATHOLOGICAL),
        Column(BETA_LOW, "\u03b2=0.01", _CIFAR10, PRACTICAL),
        Column(BETA_HIGH, "\u03b2=1", _CIFAR10, PRACTICAL),
        Column(CLASSES_LOW, "C/Client=10", _CIFAR100, CLASSES),
        Column(CLASSES_HIGH, "C/Client=50", _CIFAR100, CLASSES),
    ),
}
COLUMNS = {column.key: column for columns in TABLES.values() for column in columns}


def column_of(config: Config) -> str:
    """The paper's scenario of a run, as a key of COLUMNS; empty if it has none."""
    kind, _, number = str(config["partition"]).partition(":")
    clients = config["clients"]
    if kind not in PARTITIONS or config["data_fraction"] != 1.0:
        return ""
    if config["participation"] != PARTICIPATION.get(clients):
        return ""
    partition, parameter = PARTITIONS[kind]
    try:
        value = f"{float(number):g}"
    except ValueError:
        return ""
    key = f"{partition}/{dataset_of(config['dataset'], DATASETS)}/{parameter}={value}/{clients}"
    return key if key in COLUMNS else ""


def heading(config: Config, data: str, partition: str) -> tuple[str, str]:
    """Title and group of a column, with the names of its data set and partition; of a scenario that
    the paper does not have, in its words.
    """
    if column := column_of(config):
        head, printed = COLUMNS[column], DATASETS[dataset_of(config["dataset"], DATASETS)]
        return head.title.replace(printed, data), head.group.replace(printed, data)
    kind, _, number = str(config["partition"]).partition(":")
    clients = config["clients"]
    groups = {
        "dir": f"Practical heterogeneous (\u03b2={number}, N={clients})",
        "path": f"Pathological heterogeneous (C/Client={number}, N={clients})",
    }
    return data, groups.get(kind, f"{partition} (N={clients})")
