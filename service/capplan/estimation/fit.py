"""What a fit to measurements leaves behind, and what a fit to fewer of them would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from capplan.estimation.coefficients import Coefficients

_REWEIGHTINGS = 5
"""How often rows are weighed anew when some are left out: fits made anew are met best, large groups and small ones."""


def bounded(log: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log residuals as a fit takes them: none where there is no prediction, and no further off than a factor of 20."""
    return np.where(np.isfinite(log), np.clip(log, -3.0, 3.0), 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """A calibration of P parameters on N observations.

    Attributes:
        coefficients: fitted coefficients.
        log_residuals: (N,) log of predicted over measured of the rows it was fitted to; NaN where not predictable.
        rounds: evaluations of the Jacobian it took.
        log_slopes: (N, P) derivatives of the log predictions with respect to the log coefficients.
        weights: (N,) weights of the rows.
        scales: (N,) scales of their loss.
        drifts: (P,) how far the log coefficients are from the middle of their priors.
        sigmas: (P,) widths of the priors.
        free: (P,) parameters that are not at a bound.
    """

    coefficients: Coefficients
    log_residuals: NDArray[np.float64]
    rounds: int
    log_slopes: NDArray[np.float64]
    weights: NDArray[np.float64]
    scales: NDArray[np.float64]
    drifts: NDArray[np.float64]
    sigmas: NDArray[np.float64]
    free: NDArray[np.bool_]

    def without(self, rows: NDArray[np.bool_]) -> NDArray[np.float64]:
        """(N,) log residuals of all rows that a fit to the other rows would leave, to first order.

        The step model is taken as linear in the log coefficients around where this fit ended; its loss is not, for what
        contradicted the rows that are gone may count again now, so it is weighed anew a few times (iteratively
        reweighted least squares). A fit takes a minute, this a fraction of a second, so that every group can be left
        out in turn.

        Args:
            rows: (N,) what is left out.
        """
        kept = ~rows & np.isfinite(self.log_residuals)
        slopes, logs = self.log_slopes[kept][:, self.free], bounded(self.log_residuals[kept])
        weights, scales = self.weights[kept] ** 2, self.scales[kept] ** 2
        drifts, priors = self.drifts[self.free], self.sigmas[self.free] ** -2.0
        step = np.zeros(len(drifts))
        for _ in range(_REWEIGHTINGS):
            left = logs + slopes @ step
            pull = weights / (scales + left**2)
            curvature = slopes.T @ (slopes * pull[:, None]) + np.diag(priors)
            step -= np.linalg.solve(curvature, slopes.T @ (pull * left) + priors * (drifts + step))
        return self.log_residuals + self.log_slopes[:, self.free] @ step
