"""Methods by name, with their configurations. To add one: its file, one line here, and a hand-computed test."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tnlpad.methods.adacorr import Adacorr, AdacorrConfig
from tnlpad.methods.cdr import Cdr, CdrConfig
from tnlpad.methods.cnlcu import CnlcuConfig, CnlcuHardConfig, cnlcu, cnlcu_hard
from tnlpad.methods.coteaching import Coteaching, CoteachingConfig
from tnlpad.methods.coteaching_plus import CoteachingPlus, CoteachingPlusConfig
from tnlpad.methods.dividemix import Dividemix
from tnlpad.methods.dividemix_config import DividemixConfig, DividemixTnlpadConfig
from tnlpad.methods.jocor import Jocor, JocorConfig
from tnlpad.methods.protocol import Method, Setup
from tnlpad.methods.self_ensemble import SelfConfig, SelfEnsemble, SelfTnlpadConfig
from tnlpad.methods.sigua import Sigua, SiguaConfig
from tnlpad.methods.standard import StandardConfig, standard, standard_2x
from tnlpad.methods.tnlpad import TnlpadConfig, tnlpad


class Entry(NamedTuple):
    """A method's frozen configuration class, and what builds the method from it."""

    config: type[Any]
    build: Callable[[Any, Setup], Method]


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
    "tnlpad": Entry(TnlpadConfig, tnlpad),
    "self": Entry(SelfConfig, SelfEnsemble),
    "self+tnlpad": Entry(SelfTnlpadConfig, SelfEnsemble),
    "dividemix": Entry(DividemixConfig, Dividemix),
    "dividemix+tnlpad": Entry(DividemixTnlpadConfig, Dividemix),
}

__all__ = ["METHODS", "Entry", "Method", "Setup"]
