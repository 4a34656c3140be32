"""Colour, dash and marker of every method in the FedCoSR paper's figures, as matplotlib takes them.

The colours are Okabe and Ito's without yellow, which is too faint for a line, and a brown: also
those who confuse red and green, or blue and yellow, can tell any two apart. Methods that share one
differ in dash and marker, and are not together in the paper's figures of few methods. FedCoSR has a
colour for itself.
"""

from typing import Any

_DASHED, _DOTTED = (0, (4.5, 1.5)), (0, (1.2, 1.2))

LOOKS: dict[str, tuple[str, Any, str]] = {
    "Local": ("#000000", "-", "o"),
    "FedAvg": ("#0072B2", _DASHED, "s"),
    "FedProx": ("#E69F00", _DOTTED, "^"),
    "MOON": ("#009E73", "-", "D"),
    "FedRCL": ("#CC79A7", _DASHED, "v"),
    "pFedMe": ("#56B4E9", _DOTTED, "P"),
    "Ditto": ("#6B4226", "-", "X"),
    "PerFedAvg": ("#000000", _DASHED, "s"),
    "PeFLL": ("#0072B2", _DOTTED, "^"),
    "FedRep": ("#E69F00", "-", "D"),
    "LG-FedAvg": ("#009E73", _DASHED, "v"),
    "FedPer": ("#CC79A7", _DOTTED, "P"),
    "FedAMP": ("#56B4E9", "-", "X"),
    "FedALA": ("#6B4226", _DASHED, "o"),
    "FedAS": ("#009E73", _DOTTED, "P"),
    "FedProto": ("#E69F00", _DASHED, "v"),
    "FedPAC": ("#56B4E9", _DASHED, "o"),
    "FedGH": ("#000000", _DOTTED, "^"),
    "pFedFDA": ("#CC79A7", "-", "X"),
    "FedDBL": ("#0072B2", "-", "D"),
    "FedStream": ("#6B4226", _DOTTED, "s"),
    "FedCoSR": ("#D55E00", "-", "*"),
}
