"""The published partitioners once more, from their description: loops, lists and the legacy generators.

Slow and obvious on purpose. Nothing here is shared with the package.
"""

import random

import numpy as np


class Legacy:
    """The two global generators of a published run, both seeded (as that code does since 2022-04-09)."""

    def __init__(self, seed):
        self.np = np.random.RandomState(seed)
        self.py = random.Random(seed)


def chunks(items, parts):
    """Nearly equal consecutive parts, the first ones longer."""
    items, result = list(items), []
    small, longer = divmod(len(items), parts)
    for j in range(parts):
        size = small + (1 if j < longer else 0)
        result.append(items[:size])
        items = items[size:]
    return result


def indices_of(labels, label):
    return np.array([i for i, y in enumerate(labels) if y == label], dtype=np.int64)


def homo(labels, N, legacy):
    return chunks(legacy.np.permutation(len(labels)).tolist(), N)


def quantity_of_labels(labels, N, K, k, legacy):
    held = [[] for _ in range(N)]
    if k == K:
        owners = [list(range(K)) for _ in range(N)]
    else:
        owners = []
        for i in range(N):
            mine = [i % K]
            while len(mine) < k:
                label = legacy.py.randint(0, K - 1)
                if label not in mine:
                    mine.append(label)
            owners.append(mine)
    for label in range(K):
        pool = indices_of(labels, label)
        legacy.np.shuffle(pool)
        mine = [i for i in range(N) if label in owners[i]]
        for i, part in zip(mine, chunks(pool.tolist(), len(mine)), strict=True):
            held[i] = held[i] + part
    return held


def label_dirichlet(labels, N, K, beta, legacy, min_size=10):
    n = len(labels)
    smallest = 0
    while smallest < min_size:
        held = [[] for _ in range(N)]
        for label in range(K):
            pool = indices_of(labels, label)
            legacy.np.shuffle(pool)
            p = legacy.np.dirichlet([beta] * N)
            p = np.array([0.0 if len(held[j]) >= n / N else p[j] for j in range(N)])
            p = p / p.sum()
            bounds = [0, *(int(c * len(pool)) for c in np.cumsum(p)[:-1]), len(pool)]
            for j in range(N):
                held[j] = held[j] + pool[bounds[j] : bounds[j + 1]].tolist()
        smallest = min(len(mine) for mine in held)
    for mine in held:
        legacy.np.shuffle(mine)
    return held


def quantity_dirichlet(labels, N, beta, legacy, min_size=10):
    n = len(labels)
    order = legacy.np.permutation(n).tolist()
    smallest = 0
    while smallest < min_size:
        q = legacy.np.dirichlet([beta] * N)
        q = q / q.sum()
        smallest = min(x * n for x in q)
    bounds = [0, *(int(c * n) for c in np.cumsum(q)[:-1]), n]
    return [order[bounds[j] : bounds[j + 1]] for j in range(N)]


def fcube_points(py):
    """(train points, labels, test points, labels): every coordinate from Python's stream, in the order written."""
    train, train_y = [], []
    for block in range(4):
        for i in range(1000):
            a, b, c = py.random(), py.random(), py.random()
            b = -b if block >= 2 else b
            c = -c if block % 2 == 1 else c
            train.append([a, b, c] if i % 2 == 0 else [-a, -b, -c])
            train_y.append(i % 2)
    test = [[py.random() * 2 - 1 for _ in range(3)] for _ in range(1000)]
    return train, train_y, test, [0 if point[0] > 0 else 1 for point in test]


def mixed(labels, N, beta, legacy):
    """None where the published loop would never end: the last party finds no label but its own with one owner."""
    owners_of, second = [1] * N, []
    for party in range(N):
        if not any(owners_of[label] < 2 for label in range(N) if label != party):
            return None
        while True:
            label = legacy.py.randint(0, N - 1)
            if label != party and owners_of[label] < 2:
                break
        owners_of[label] += 1
        second.append(label)
    held = [[] for _ in range(N)]
    for label in range(N):
        indices = indices_of(labels, label)
        legacy.np.shuffle(indices)
        share = legacy.np.dirichlet([beta, beta])[0]
        cut = int(share * len(indices))
        parts = [indices[:cut].tolist(), indices[cut:].tolist()]
        for party in range(N):
            if label in (party, second[party]):
                held[party] += parts.pop(0)
    return held
