"""Every data set on one page: what it is, which files it is read from, and by which reader."""

from __future__ import annotations

from collections.abc import Sequence

from noniid.data import adult, fcube, images, tables
from noniid.data.entry import Entry, Layout
from noniid.data.files import File

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
_UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"


def _idx_layout(mirrors: tuple[str, ...], sums: Sequence[tuple[str, str]]) -> Layout:
    """Images and labels to train, then to test: (sha256 of the download, md5 of its content) of each file."""
    names = (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )
    files = tuple(
        File(f"{name}.gz", tuple(f"{m}{name}.gz" for m in mirrors), f"sha256:{sha256}", (name,), md5)
        for name, (sha256, md5) in zip(names, sums, strict=True)
    )
    return Layout(files, images.read_idx_set)


_MNIST = _idx_layout(
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    [
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "6bbc9ace898e44ae57da46a324031adb",
        ),
        (
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "a25bea736e30d166cdddb491f175f624",
        ),
        (
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "2646ac647ad5339dbf082846283269ea",
        ),
        (
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
            "27ae3e4e09519cfbb04c329615203637",
        ),
    ],
)
_FMNIST = _idx_layout(
    ("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",),
    [
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "f4a8712d7a061bf5bd6d2ca38dc4d50a",
        ),
        (
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "9018921c3c673c538a1fc5bad174d6f9",
        ),
        (
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "8181f5470baa50b63fa0f6fddb340f0a",
        ),
        (
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
            "15d484375f8d13e6eb1aabb0c3f46965",
        ),
    ],
)
_CIFAR10_MD5 = (
    "5dd7e06a14cb22eb9f671a540d1b7c25",
    "5ea93a67294ea407fff1d09f752e9692",
    "942cd6a4bcdd0dd3c604fbe906cb4421",
    "ae636b3ba5c66a11e91e8cb52e771fcb",
    "53f37980c15c3d472c316c40844f3f0d",
    "803d5f7f4d78ea53de84dbe85f74fb6d",
)
_CIFAR10 = (
    Layout(
        tuple(File(n, content_md5=m) for n, m in zip(images.CIFAR_NAMES, _CIFAR10_MD5, strict=True)),
        images.read_cifar_folder,
    ),
    Layout(
        (
            File(
                "cifar-10-binary.tar.gz",
                ("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",),
                "sha256:c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            ),
        ),
        images.read_cifar_archive,
    ),
)
_SVHN_SHA256 = {
    "train_32x32.mat": "435e94d69a87fde4fd4d7f3dd208dfc32cb6ae8af2240d066de1df7508d083b8",
    "test_32x32.mat": "cdce80dfb2a2c4c6160906d0bd7c68ec5a99d7ca4831afa54f09182025b6a75b",
}
_SVHN = Layout(
    tuple(
        File(name, (f"http://ufldl.stanford.edu/housenumbers/{name}",), f"sha256:{sha256}")
        for name, sha256 in _SVHN_SHA256.items()
    ),
    images.read_svhn_set,
)
_ADULT = (
    Layout((File("a9a", (_LIBSVM + "a9a",)), File("a9a.t", (_LIBSVM + "a9a.t",))), tables.read_a9a),
    Layout(
        (
            File("adult.data", (_UCI + "adult/adult.data",), "md5:5d7c39d7b8804f071cdd1f2a7c460872"),
            File("adult.test", (_UCI + "adult/adult.test",), "md5:35238206dfdf7f1fe215bbb874adecdc"),
        ),
        adult.read_adult,
    ),
)
_RCV1 = Layout(
    (
        File(
            "rcv1_train.binary.bz2",
            (_LIBSVM + "rcv1_train.binary.bz2",),
            "md5:1aeda848408e621468c0fe6944d9382f",
            ("rcv1_train.binary", "rcv1"),
        ),
    ),
    tables.read_rcv1,
)
_COVTYPE = (
    Layout(
        (
            File(
                "covtype.libsvm.binary.scale.bz2",
                (_LIBSVM + "covtype.libsvm.binary.scale.bz2",),
                "md5:d95f45e15c284005c2c7a4c82e4be102",
                (
                    "covtype.libsvm.binary.scale",
                    "covtype.libsvm.binary",
                    "covtype.libsvm.binary.bz2",
                    "covtype",
                ),
            ),
        ),
        tables.read_covtype_libsvm,
    ),
    Layout(
        (
            File(
                "covtype.data.gz",
                ("https://ndownloader.figshare.com/files/5976039", _UCI + "covtype/covtype.data.gz"),
                "sha256:614360d0257557dd1792834a85a1cdebfadc3c4f30b011d56afee7ffb5b15771",
                ("covtype.data",),
                "71df19898bd3e11db15ae0faf4159f2c",
            ),
        ),
        tables.read_covtype_uci,
    ),
)

CATALOGUE: dict[str, Entry] = {
    "digits": Entry(
        "handwritten digits, 8 x 8 (comes with scikit-learn; nothing to download)",
        "image",
        1_442,
        355,
        (1, 8, 8),
        10,
        (Layout((), lambda _: images.read_digits(images.digits_file())),),
        license="CC BY 4.0",
        homepage="https://archive.ics.uci.edu/dataset/80",
    ),
    "fcube": Entry(
        "points in a cube, four blocks that differ only in their features",
        "synthetic",
        4_000,
        1_000,
        (3,),
        2,
        draw=fcube.draw_fcube,
        drawn=True,
        license="made here",
        homepage="https://arxiv.org/abs/2102.02079",
    ),
    "mnist": Entry(
        "handwritten digits",
        "image",
        60_000,
        10_000,
        (1, 28, 28),
        10,
        (_MNIST,),
        homepage="http://yann.lecun.com/exdb/mnist/",
    ),
    "fmnist": Entry(
        "Fashion-MNIST: pieces of clothing",
        "image",
        60_000,
        10_000,
        (1, 28, 28),
        10,
        (_FMNIST,),
        license="MIT",
        homepage="https://github.com/zalandoresearch/fashion-mnist",
    ),
    "cifar10": Entry(
        "CIFAR-10: colour photographs of ten kinds of things",
        "image",
        50_000,
        10_000,
        (3, 32, 32),
        10,
        _CIFAR10,
        homepage="https://www.cs.toronto.edu/~kriz/cifar.html",
    ),
    "svhn": Entry(
        "street view house numbers, cropped digits (without the extra set)",
        "image",
        73_257,
        26_032,
        (3, 32, 32),
        10,
        (_SVHN,),
        license="non-commercial use",
        homepage="http://ufldl.stanford.edu/housenumbers/",
    ),
    "adult": Entry(
        "a9a: does a person earn more than 50,000 dollars a year? 123 binary columns",
        "table",
        32_561,
        16_281,
        (tables.ADULT_WIDTH,),
        2,
        _ADULT,
        license="CC BY 4.0",
        homepage="https://archive.ics.uci.edu/dataset/2",
    ),
    "rcv1": Entry(
        "newswire stories as sparse word weights, two groups of topics",
        "table",
        15_181,
        5_061,
        (tables.RCV1_WIDTH,),
        2,
        (_RCV1,),
        drawn=True,
        homepage=_LIBSVM.removesuffix("/") + ".html#rcv1.binary",
    ),
    "covtype": Entry(
        "forest cover: lodgepole pine or one of six other types, columns scaled to [0, 1]",
        "table",
        435_759,
        145_253,
        (tables.COVTYPE_WIDTH,),
        2,
        _COVTYPE,
        drawn=True,
        license="CC BY 4.0",
        homepage="https://archive.ics.uci.edu/dataset/31",
    ),
}
