"""Where each profile's numbers come from, in words: docs/reference/hardware.md shows them."""

LINK = (
    "Assumed: two all-reduces a layer over PCIe 4.0 at 20 us + bytes / 10 GB/s (vLLM's own all-reduce "
    "between two L40S over PCIe measures 5 to 60 us for up to 512 KiB and 9.2 GB/s beyond); "
    "with_allreduce changes it, NVLINK is 12 us and 45 GB/s."
)
GA102 = (
    "Measured: {layers} at every count of tokens 1..2048 (LLMServingSim's profiler, PyTorch, kernels "
    "unfused), a lone spike replaced by the median of three; the output head by count of requests. "
    "Fitted: prefill attention sqrt(latency^2 + work^2), latency from the A6000's short chunks with "
    "context (same chip), work from {column}. Filled: a decode kernel that reads each key once at 73 % "
    "of {bandwidth} GB/s; launch 15 us and 0.18 us a request, what uneven decodes pay, and decodes "
    "beside a prefill 1.9 times dearer than alone (heads that share keys read them apart there), all as "
    "vLLM 0.19 measures on the RTX 4090; the sampler from there too. The A6000's measured decode rows "
    "are not used: that kernel reads each key four times. Assumed: host time 2 ms a step, not hidden "
    "behind the GPU. {link} {kv}"
)
KV_TWO = (
    "KV cache: 2 x ({memory} GiB x 0.9 - 1.2 GiB) - {weights} GB of weights, at {bytes} bytes a token, "
    "in blocks of 16."
)
KV_ONE = "KV cache: {memory} GiB x 0.9 - 1.2 GiB - 16.06 GB of weights, at 131,072 bytes a token."
LLAMA_LAYERS = "the operators of Llama-3.1-8B, tensor parallel 2, on one {gpu},"
QWEN_LAYERS = (
    "by shape, the operators of Llama-3.1-8B, tensor parallel 2, on one {gpu}, each matrix product "
    "times the ratio of its elements in Qwen2.5-7B (28 layers, hidden 3584, ffn 18944, 28/4 heads, "
    "vocabulary 152064),"
)
SERVED = (
    "Measured on vLLM 0.19 (LLMServingSim's profiler, mean of three): nine fused kernels at 165 counts "
    "of tokens (a count between pays what the next one pays), output head and sampler by requests, "
    "attention on a grid of prefill chunk x its context x decodes x their context, and what uneven "
    "decodes pay. Filled: 256 decodes beside a prefill, straight on from 64 and 128. Dips of the "
    "measured surface, from the GPU's cache, are kept. Host time 0: vLLM's async scheduling hides it, "
    "and replays of the recorded run agree without it. {rest}"
)
RTX4090_KV = "KV cache: as vLLM reported it, 41,408 tokens."
PCIE5 = (
    "Assumed: two all-reduces a layer over PCIe 5.0 at 10 us + bytes / 18 GB/s, twice what vLLM "
    "measures between two L40S over PCIe 4.0."
)
PARTS = (
    "{dense} Measured: vLLM {version}'s attention of prompts without context and of decodes alone "
    "(aiconfigurator). Filled: a prefill's context adds its query-key pairs at the rate of long "
    "prompts, or {walk} ns a token of context where that is longer ({why}); what uneven decodes pay and "
    "the sampler from the RTX 4090; decodes longer or more than measured per cached token. Assumed: "
    "decodes beside a prefill cost {mixed} times what they cost alone ({reason}); host time 0. {kv}"
)
A100_DENSE = (
    "Measured: fused layers of Llama-3-8B at 450 counts of tokens (Vidur), the output head by its "
    "matrix product of 65,536 rows (aiconfigurator). Cross-check: QoServe's published linear fit of its "
    "own engine on an A100 takes 1.3 to 1.7 times as long (57 against 37 ms for 512 tokens, 201 against "
    "153 ms for 2048): an older engine, with more host time a step."
)
H100_DENSE = (
    "Measured: matrix products of Llama-3.1-8B at every count of tokens 1..2048, output head "
    "(LLMServingSim). Filled: norms, rotary embedding and activation from vLLM's fused kernels on the "
    "RTX PRO 6000, because the profiler ran them unfused; the H100 has twice that GPU's memory "
    "bandwidth, so they are not too fast."
)


def ga102(gpu: str, model: str, weights: str, kv_bytes: int) -> str:
    """RTX 3090 and RTX A6000, two of them."""
    memory, bandwidth = ("24", "936") if gpu == "RTX3090" else ("48", "768")
    layers = LLAMA_LAYERS if model == "Llama-3.1-8B" else QWEN_LAYERS
    return GA102.format(
        layers=layers.format(gpu=gpu.replace("RTX3090", "RTX 3090").replace("A6000", "RTX A6000")),
        column="this GPU's own prompts without context",
        bandwidth=bandwidth,
        link=LINK,
        kv=KV_TWO.format(memory=memory, weights=weights, bytes=f"{kv_bytes:,}"),
    )


def served(gpu: str, gpus: int) -> str:
    """RTX 4090 and RTX PRO 6000."""
    if gpu == "RTX4090":
        return SERVED.format(rest=RTX4090_KV)
    if gpus == 1:
        return SERVED.format(rest=KV_ONE.format(memory="95.6"))
    return SERVED.format(rest=f"{PCIE5} {KV_TWO.format(memory='95.6', weights='16.06', bytes='131,072')}")


def server(gpu: str) -> str:
    """A100 and H100."""
    kv = KV_ONE.format(memory="79.2")
    if gpu == "A100":
        return PARTS.format(
            dense=A100_DENSE,
            version="0.14",
            walk="47",
            why="the RTX A6000's, of the same generation",
            mixed="1.9",
            reason="as on the RTX 4090, the same FlashAttention 2",
            kv=kv,
        )
    return PARTS.format(
        dense=H100_DENSE,
        version="0.24",
        walk="17",
        why="the slope of its own prompts of 128 to 512 tokens",
        mixed="1.0",
        reason="FlashAttention 3 packs heads that share keys in mixed batches too",
        kv=kv,
    )
