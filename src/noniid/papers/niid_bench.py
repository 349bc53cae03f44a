"""Li, Diao, Chen, He: Federated Learning on Non-IID Data Silos: An Experimental Study.

Two versions: v1 (arXiv, February 2021) and v2 (ICDE 2022). Wherever both can be read, they print the same
accuracy for FedAvg, FedProx and SCAFFOLD; FedNova's changed, as its normalisation did in the published code.
Tables 4 and 5 are v2's alone. The numbers are the paper's, whether or not they can be reached.
"""

from __future__ import annotations

from types import MappingProxyType

from noniid.papers.base import Cost, DataSize, Paper, Protocol, read_cells, read_claims, read_rows

VERSIONS = ("v1", "v2")
ALGORITHMS = ("fedavg", "fedprox", "scaffold", "fednova")

# Training and test instances, features, classes; the same in both versions. 1,024 counts one colour of three.
_TABLE_2 = """
mnist     60_000   10_000   784       10
fmnist    60_000   10_000   784       10
cifar10   50_000   10_000   1_024     10
svhn      73_257   26_032   1_024     10
adult     32_561   16_281   123       2
rcv1      15_182   5_060    47_236    2
covtype   435_759  145_253  54        2
fcube     4_000    1_000    3         2
femnist   341_873  40_832   784       10
"""

# Top-1 test accuracy in percent ± standard deviation over three trials: FedAvg, FedProx, SCAFFOLD, FedNova.
# One token where the versions agree, else v1|v2. Four v1 cells are unreadable in the text we hold (?):
# three of FedNova's, and SCAFFOLD's on noisy CIFAR-10, the best of its row if v1's tally is right.
# v1's FCUBE row, FedAvg on SVHN's quantity skew and the iid rows after the first come from a jumbled part of
# that text, put in order by v2 and the tallies.
_TABLE_3 = """
label
    mnist     dirichlet(0.5)  98.9±0.1    98.9±0.1    99.0±0.1    99.0±0.1|98.9±0.1
    mnist     labels(1)       29.8±7.9    40.9±23.1   9.9±0.2     31.6±21.2|39.2±22.1
    mnist     labels(2)       97.0±0.4    96.4±0.3    95.9±0.3    96.8±0.6|94.5±1.5
    mnist     labels(3)       98.0±0.2    97.9±0.4    96.6±1.5    98.0±0.4|98.0±0.3
    fmnist    dirichlet(0.5)  88.1±0.6    88.1±0.9    88.4±0.5    88.1±0.7|88.5±0.5
    fmnist    labels(1)       11.2±2.0    28.9±3.9    12.8±4.8    12.6±4.5|14.8±5.9
    fmnist    labels(2)       77.3±4.9    74.9±2.6    42.8±28.7   72.8±4.1|70.4±5.1
    fmnist    labels(3)       80.7±1.9    82.5±1.9    77.7±3.8    81.0±2.8|78.9±3.0
    cifar10   dirichlet(0.5)  68.2±0.7    67.9±0.7    69.8±0.7    68.0±0.3|66.8±1.5
    cifar10   labels(1)       10.0±0.0    12.3±2.0    10.0±0.0    10.0±0.0
    cifar10   labels(2)       49.8±3.3    50.7±1.7    49.1±1.7    48.9±1.8|46.5±3.5
    cifar10   labels(3)       58.3±1.2    57.1±1.2    57.8±1.4    55.8±2.3|54.4±1.1
    svhn      dirichlet(0.5)  86.1±0.7    86.6±0.9    86.8±0.3    86.3±0.6|86.4±0.6
    svhn      labels(1)       11.1±0.0    19.6±0.0    6.7±0.0     9.6±2.5|10.6±0.8
    svhn      labels(2)       80.2±0.8    79.3±0.9    62.7±11.6   72.0±6.2|75.4±4.8
    svhn      labels(3)       82.0±0.7    82.1±1.0    77.2±2.0    82.2±0.3|80.5±1.2
    adult     dirichlet(0.5)  78.4±0.9    80.5±0.7    76.4±0.0    62.0±7.9|52.3±26.7
    adult     labels(1)       82.5±2.2    76.4±0.0    23.6±0.0    51.6±1.5|50.8±0.9
    rcv1      dirichlet(0.5)  48.2±0.7    70.3±13.3   64.4±24.3   63.6±26.0|49.3±2.1
    rcv1      labels(1)       51.8±0.7    51.8±0.7    51.8±0.7    51.8±0.7
    covtype   dirichlet(0.5)  77.2±7.4    70.9±0.7    67.7±14.9   ?|74.8±12.9
    covtype   labels(1)       48.8±0.1    59.1±2.1    49.6±1.4    50.4±1.4
feature
    mnist     noise(0.1)      99.1±0.1    99.1±0.1    99.1±0.1    ?|99.1±0.1
    fmnist    noise(0.1)      89.1±0.3    89.0±0.2    89.3±0.0    89.2±0.1|89.0±0.1
    cifar10   noise(0.1)      68.9±0.3    69.3±0.2    ?|70.1±0.2  ?|68.5±1.3
    svhn      noise(0.1)      88.1±0.5    88.1±0.2    88.1±0.4    88.1±0.5|88.1±0.4
    fcube     fcube           99.8±0.2    99.8±0.0    99.7±0.3    99.7±0.1
    femnist   writers         99.4±0.0    99.3±0.1    99.4±0.1    99.3±0.1
quantity
    mnist     quantity(0.5)   99.2±0.1    99.2±0.1    99.1±0.1    99.1±0.1
    fmnist    quantity(0.5)   89.4±0.1    89.7±0.3    88.8±0.4    87.0±3.2|86.1±2.9
    cifar10   quantity(0.5)   72.0±0.3    71.2±0.6    62.4±4.1    24.4±15.3|10.0±0.0
    svhn      quantity(0.5)   88.3±1.0    88.4±0.4    11.0±7.4    50.9±29.9|41.3±21.1
    adult     quantity(0.5)   82.2±0.1    84.8±0.2    81.6±4.5    55.3±23.6|43.2±33.9
    rcv1      quantity(0.5)   96.7±0.3    96.8±0.4    49.0±1.9    65.1±27.4|51.8±0.7
    covtype   quantity(0.5)   88.1±0.2    84.6±0.2    63.2±20.8   54.2±2.6|51.2±3.2
iid
    mnist     iid             99.1±0.1    99.1±0.1    99.2±0.0    99.1±0.0|99.1±0.1
    fmnist    iid             89.6±0.3    89.5±0.2    89.7±0.2    89.6±0.2|89.4±0.2
    cifar10   iid             70.4±0.2    70.2±0.1    71.5±0.3    70.8±0.1|69.5±1.0
    svhn      iid             88.5±0.5    88.5±0.8    88.0±0.8    88.5±0.5|88.4±0.5
    fcube     iid             99.7±0.1    99.6±0.2    99.8±0.1    99.9±0.1
    femnist   iid             99.3±0.1    99.4±0.1    99.4±0.0    99.3±0.0
    adult     iid             82.6±0.4    84.8±0.2    83.8±2.5    82.6±0.2|82.6±0.0
    rcv1      iid             96.8±0.4    96.6±0.6    80.9±27.8   96.6±0.4
    covtype   iid             87.9±0.1    85.2±0.0    88.0±2.3    88.0±0.3|87.9±0.2
"""

# How often each algorithm is the best of its row, ties counted for all, as the paper counts.
_TIMES_BEST = """
label     ?|8  ?|11  ?|4  ?|3
feature   4    3     5    2
quantity  3    5     0    0
iid       2    3     5    3|1
"""

# Seconds, then megabytes of one round on MNIST, CIFAR-10, adult, rcv1; neither hardware nor split is stated.
# The sizes are 11 models of 4-byte parameters, as ten uploads and one broadcast would be; SCAFFOLD's are 22.
_TABLE_4 = """
fedavg    73   193  15  66    1.95  2.73  0.20  66.54
fedprox   133  233  44  76    1.95  2.73  0.20  66.54
scaffold  77   197  14  66    3.91  5.46  0.41  133.08
fednova   73   189  17  65    1.95  2.73  0.20  66.54
"""

# Mixed skews, without spread, in v2 only. Single skews repeat Table 3; the paper prints noise(0.1) twice.
_TABLE_5 = """
label
    cifar10  dirichlet(0.5)               -|68.2  -|67.9  -|69.8  -|66.8
feature
    cifar10  noise(0.1)                   -|68.9  -|69.3  -|70.1  -|68.5
quantity
    cifar10  quantity(0.5)                -|72.0  -|71.2  -|62.4  -|10.0
label + feature
    cifar10  dirichlet(0.5) + noise(0.1)  -|66.1  -|64.8  -|67.8  -|65.9
feature + quantity
    cifar10  quantity(0.5) + noise(0.1)   -|69.1  -|69.2  -|62.2  -|10.0
"""


def _read_costs() -> tuple[Cost, ...]:
    data = ("mnist", "cifar10", "adult", "rcv1")
    return tuple(
        Cost(name, algorithm, float(seconds), float(megabytes))
        for algorithm, *numbers in read_rows(_TABLE_4)
        for name, seconds, megabytes in zip(data, numbers[:4], numbers[4:], strict=True)
    )


def _read_times_best() -> dict[tuple[str, str], dict[str, int | None]]:
    best: dict[tuple[str, str], dict[str, int | None]] = {}
    for category, *tokens in read_rows(_TIMES_BEST):
        for algorithm, token in zip(ALGORITHMS, tokens, strict=True):
            for version, claim in read_claims(token, VERSIONS):
                count = None if claim.value is None else int(claim.value)
                best.setdefault((version, category), {})[algorithm] = count
    return best


TABLE_2 = tuple(DataSize(data, *map(int, numbers)) for data, *numbers in read_rows(_TABLE_2))
TABLE_3 = read_cells(_TABLE_3, ALGORITHMS, VERSIONS)
TABLE_4 = _read_costs()
TABLE_5 = read_cells(_TABLE_5, ALGORITHMS, VERSIONS)
TIMES_BEST = MappingProxyType(_read_times_best())  # (version, category) -> algorithm -> count

_MODELS = {
    **dict.fromkeys((size.data for size in TABLE_2), "simple-cnn"),
    **dict.fromkeys(("adult", "rcv1", "covtype"), "mlp"),
    "fcube": "linear",  # in the published code; the text says CNN, which three features cannot feed
}

# Told for CIFAR-10 alone, by the published code's README. For dirichlet(0.5) its first edition gave 0.01,
# and v1's text, too, finds 0.01 ahead of 0.001 in the end.
_MU_ON_CIFAR10 = (
    ("labels(2)", 0.01),
    ("dirichlet(0.5)", 0.001),
    ("noise(0.1)", 0.01),
    ("quantity(0.5)", 0.01),
)


def protocol(data: str) -> Protocol:
    """The settings of all tables on one data set.

    Weight decay, augmentation, the seeds and the round that counts are the published code's, not the text's.
    """
    return Protocol(
        model=_MODELS[data],
        augment="crop-flip" if data == "cifar10" else "none",
        lr=0.1 if data == "rcv1" else 0.01,
        momentum=0.9,
        weight_decay=1e-5,
        batch_size=64,
        epochs=10,
        rounds=50,
        num_clients=4 if data == "fcube" else 10,
        participation=1.0,
        metric="final round",
        seeds=(0, 1, 2),
        mu_grid=(0.001, 0.01, 0.1, 1.0),  # v1 prints 0.01 twice
        mu_chosen=_MU_ON_CIFAR10 if data == "cifar10" else (),
    )


PAPER = Paper(
    name="niid-bench",
    title="Federated Learning on Non-IID Data Silos: An Experimental Study",
    versions=MappingProxyType({"v1": "arXiv, February 2021", "v2": "ICDE 2022"}),
    tables=MappingProxyType({"2": TABLE_2, "3": TABLE_3, "4": TABLE_4, "5": TABLE_5}),
    protocol=protocol,
)
