"""Methods by name, with their configurations. To add a method: its file, one line here, and a hand-computed test."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import nn

from tnlpad.methods.adacorr import Adacorr, AdacorrConfig
from tnlpad.methods.cdr import Cdr, CdrConfig
from tnlpad.methods.cnlcu import CnlcuConfig, CnlcuHardConfig, cnlcu, cnlcu_hard
from tnlpad.methods.coteaching import Coteaching, CoteachingConfig
from tnlpad.methods.coteaching_plus import CoteachingPlus, CoteachingPlusConfig
from tnlpad.methods.dividemix import Dividemix, DividemixConfig, DividemixTnlpadConfig, summed_logits
from tnlpad.methods.jocor import Jocor, JocorConfig
from tnlpad.methods.protocol import Method, Setup
from tnlpad.methods.self_ensemble import SelfConfig, SelfEnsemble, SelfTnlpadConfig
from tnlpad.methods.sigua import Sigua, SiguaConfig
from tnlpad.methods.standard import StandardConfig, standard, standard_2x
from tnlpad.methods.tnlpad import Tnlpad, TnlpadConfig


class Entry(NamedTuple):
    """A method's frozen configuration class, and a function that builds the method from it.

    `shipped` builds the module into which a run's saved weights are loaded: the first judged network. Its argument
    returns fresh networks, like `Setup.network`.
    """

    config: type[Any]
    build: Callable[[Any, Setup], Method]
    shipped: Callable[[Callable[[int], nn.Module]], nn.Module] = lambda network: network(0)


METHODS: dict[str, Entry] = {
    "standard": Entry(StandardConfig, standard),
    "standard_2x": Entry(StandardConfig, standard_2x),
    "coteaching": Entry(CoteachingConfig, Coteaching),
    "coteaching_plus": Entry(CoteachingPlusConfig, CoteachingPlus),
    "jocor": Entry(JocorConfig, Jocor),
    "sigua": Entry(SiguaConfig, Sigua),
    "cnlcu": Entry(CnlcuConfig, cnlcu),
    "cnlcu_hard": Entry(CnlcuHardConfig, cnlcu_hard),
    "adacorr": Entry(AdacorrConfig, Adacorr),
    "cdr": Entry(CdrConfig, Cdr),
    "tnlpad": Entry(TnlpadConfig, Tnlpad),
    "self": Entry(SelfConfig, SelfEnsemble),
    "self+tnlpad": Entry(SelfTnlpadConfig, SelfEnsemble),
    "dividemix": Entry(DividemixConfig, Dividemix, summed_logits),
    "dividemix+tnlpad": Entry(DividemixTnlpadConfig, Dividemix, summed_logits),
}

__all__ = ["METHODS", "Entry", "Method", "Setup"]
