# SPDX-License-Identifier: Apache-2.0
"""Workloads: networks of layers, what they add up to, and what is wrong with a file of one."""

from __future__ import annotations

import hashlib
import pickle
from collections import Counter
from pathlib import Path

import pytest

from hwgen.cli import main
from hwgen.errors import ConfigError
from hwgen.workloads import Network, load_workload, network_of, parse_gemm, shipped

PRODUCTS = {
    # products, multiply-accumulates, and the beginning of the digest of the ordered products:
    # of the lists that these files were before they had layers
    "bert_base": (73, 10872225792, "3f10c24a14a67f3f"),
    "bitnet_2b4t_decode": (210, 2084044800, "4704d7cec92e0b00"),
    "bitnet_2b4t_prefill": (210, 1067030937600, "a107503db44acf0a"),
    "gpt2_decode": (49, 123532032, "6ba8f3fdc5963379"),
    "gpt2_prefill": (49, 43525141248, "e1eb3ba5cdb25b56"),
    "llama3_8b_decode": (225, 7504658432, "c7999b573075bfa4"),
    "llama3_8b_prefill": (225, 3573938126848, "d786985dc7e69abb"),
    "minilm_l6": (36, 1358954496, "4a33bdcef691d160"),
    "resnet50": (54, 4089184256, "3ce0a29167b1c7a4"),
    "vit_b16": (74, 16848500736, "ed23d62323f2a5ea"),
}


def test_shipped_networks_have_the_products_of_their_lists() -> None:
    assert set(PRODUCTS) == set(shipped())
    for name, (count, macs, digest) in PRODUCTS.items():
        stem, network = load_workload(name)
        assert stem == name
        assert len(network) == count
        assert network.macs == sum(gemm.macs for gemm in network) == macs
        assert hashlib.sha256(repr(sorted(network)).encode()).hexdigest()[:16] == digest
        by_layer = Counter[tuple[int, int, int]]()
        for layer in network.layers:
            if layer.product:
                by_layer[layer.product] += layer.repeat
        assert by_layer == Counter(network)


def test_a_network_by_hand() -> None:
    network = load_workload("bitnet_2b4t_decode")[1]
    assert (network.tokens, network.context) == (1, 512)
    assert network.weights == network.macs == 30 * (2 * 2560**2 + 2 * 2560 * 640 + 3 * 2560 * 6912)
    # 512 positions are read, one is written: keys and values of 5 heads of 128 in 30 layers
    assert network.kv_moved == 30 * 2 * 513 * 5 * 128
    # the token looks at 513 positions, with 20 heads: scores, and values
    assert network.attention_macs == 30 * 2 * 513 * 20 * 128
    assert network.operations == 30 * (14592 + 5120 + 6912)
    longer = network.with_context(1024)
    assert longer.kv_moved == 30 * 2 * 1025 * 5 * 128
    assert tuple(longer) == tuple(network)


def test_a_prompt_looks_at_what_was_before() -> None:
    network = load_workload("gpt2_prefill")[1]
    pairs = 512 * 513 // 2
    assert network.attention_macs == 12 * 2 * pairs * 12 * 64
    assert network.kv_moved == 12 * 2 * 512 * 12 * 64  # nothing to read: there is no context
    image = load_workload("vit_b16")[1]
    assert image.tokens is None
    assert image.kv_moved == 0  # no cache
    assert image.attention_macs == 12 * 2 * 197 * 197 * 12 * 64


def test_blocks_repeat_in_order(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(
        "tokens: 2\nkv_bits: 4\nlayers:\n"
        "  - name: block\n    repeat: 2\n    layers:\n"
        "      - {name: a, k: 3, n: 4}\n"
        "      - repeat: 2\n        layers: [{k: 5, n: 6, m: 1}, {name: b, k: 7, n: 8}]\n"
        "      - {name: add, elements: 9, operations: 3, repeat: 5}\n"
    )
    network = load_workload(str(path))[1]
    a, b, c = (2, 3, 4), (1, 5, 6), (2, 7, 8)
    assert list(network) == [a, b, c, b, c] * 2
    assert [(layer.name, layer.repeat) for layer in network.layers] == [
        ("block.a", 2),
        ("block.1x5x6", 4),
        ("block.b", 4),
        ("block.add", 10),
    ]
    assert network.operations == 10 * 2 * 9 * 3
    assert network.kv_bits == 4
    again = pickle.loads(pickle.dumps(network))
    assert again == network
    assert hash(again) == hash(network)


def test_a_list_of_products_is_a_network(tmp_path: Path) -> None:
    path = tmp_path / "own.yaml"
    path.write_text("gemms:\n  - {n: 3, m: 1, k: 2}\n")
    network = load_workload(str(path))[1]
    (gemm,) = network
    assert gemm == (1, 2, 3) == parse_gemm("1,2,3")
    assert network.tokens is None
    assert network_of([(1, 2, 3)]).products == network.products
    assert network_of(network) is network
    assert [layer.repeat for layer in network_of([(1, 2, 3)] * 4).layers] == [4]
    assert isinstance(network[0:1], tuple)


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("gemms: [{m: 1, k: 2}]", "1:9: gemms.0", "n missing: it must be {m: M, k: K, n: N}"),
        ("gemms: [[1, 2, 3]]", "1:9: gemms.0", "must be a product {m: M, k: K, n: N}"),
        ("gemms: [{m: 1, k: 2, n: 0}]", "1:22: gemms.0.n", "must be an integer in 1..2147483647"),
        ("gemms: [{m: 1, k: 2, n: 3, x: 4}]", "1:28: gemms.0.x", "unknown key; legal here: name"),
        ("gemms: []", "1:1: gemms", "must be a list of layers"),
        ("layers: [{k: 2, n: 3}]", "1:10: layers.0", "m missing"),
        ("tokens: 1\nlayer: []", "", "must have the key layers"),
        ("tokens: 0\nlayers: [{k: 2, n: 3}]", "1:1: tokens", "integer in 1..2147483647, not 0"),
        ("tokens: 1\ncontexts: 5\nlayers: [{k: 2, n: 3}]", "2:1:", "did you mean 'context'?"),
        ("tokens: 1\ncontext: -1\nlayers: [{k: 2, n: 3}]", "2:1: context", "in 0..2147483647"),
        ("tokens: 1\nlayers: [{elements: 3}]", "2:1: layers", "has no product"),
        ("tokens: 1\nlayers: [{heads: 4, head_size: 8, kv_heads: 5}]", "2:35:", "in 1..4, not 5"),
        ("tokens: 1\nlayers: [{heads: 4, head_size: 8, causal: 1}]", "2:35:", "true or false"),
        ("tokens: 1\nlayers: [{repeat: 2, layers: [{k: 1, n: no}]}]", "2:38:", "not 'no'"),
        ("tokens: 1\nlayers: [{repeat: 200000, k: 1, n: 1}]", "2:10:", "more than the 100000"),
        ("gemms: [{m: 2147483647, k: 4096, n: 2147483647}]", "", "2**53"),
        ("layers: [{name: 5, m: 1, k: 2, n: 3}]", "1:11: layers.0.name", "must be text, not 5"),
    ],
)
def test_what_is_wrong_with_a_network(
    tmp_path: Path, text: str, position: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text + "\n")
    with pytest.raises(ConfigError) as caught:
        load_workload(str(path))
    problems = [str(problem) for problem in caught.value.problems]
    assert any(position in problem and message in problem for problem in problems), problems
    config = tmp_path / "core.yaml"
    config.write_text("name: core\nfamily: systolic\n")
    assert main(["estimate", "--config", str(config), "--workload", str(path)]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_a_network_holds_its_own_kind() -> None:
    assert isinstance(load_workload("resnet50")[1], Network)
