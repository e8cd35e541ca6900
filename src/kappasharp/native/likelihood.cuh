// One answer's log-probability as a function of its difference z, with derivatives: inference/likelihood.py. A win above the
// margin that all share, or an answer with bounds of its own: y within `half` of `centre`, y above `half`, or a win that
// took `time`.
using Graded = NUMBER(GRADED);
constexpr double REACH = 8.5, DRIFT = 0.851, LOG_2 = 0.69314718055994530942;
constexpr double LEAST_OMEGA = 8.0 * 2.220446049250313e-16;
constexpr int TIE_NODES = 64;

struct Moments {
    double log_mass, shift, omega, third;
};

// log P(|y| <= end) for y ~ N(z, 1), and of y given that: E[y - z], 1 - variance, third central moment. Gauss and
// Legendre's nodes and weights cover the part of the interval that holds the mass.
DEVICE Moments tie_moments(double z, double end, const double* nodes) {
    const double nearest = z < -end ? -end : z > end ? end : z, away = fabs(z) - end;
    const double width = REACH * REACH / (away > REACH ? away : REACH);
    const double low = nearest - width > -end ? nearest - width : -end;
    const double high = nearest + width < end ? nearest + width : end;
    const double half = 0.5 * (high - low), middle = 0.5 * (high + low) - nearest;
    const double off = nearest - z, top = -0.5 * off * off;
    double mass = 0.0, mean = 0.0, variance = 0.0, third = 0.0;
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < TIE_NODES; k++) {
            const double y = middle + half * nodes[k];
            // The exponent less its largest value in the interval, so that no term overflows and not all vanish.
            const double share = nodes[TIE_NODES + k] * exp(-0.5 * (off + y) * (off + y) - top);
            const double centred = y - mean;
            if (pass == 0) mass += share, third += share * y;
            else variance += share * centred * centred, third += share * centred * centred * centred;
        }
        if (pass == 0) mean = third / mass, third = 0.0;
    }
    const double omega = 1.0 - variance / mass;
    const double log_mass = top + log(INVERSE_SQRT_2_PI * half * mass);
    return {log_mass, off + mean, omega > LEAST_OMEGA ? omega : LEAST_OMEGA, third / mass};
}

struct Likelihood {
    Graded graded;
    double margin;
    const double *between, *centre, *half, *time, *nodes;

    METHOD bool is_timed(int i) const { return graded && time[i] > 0.0; }
    METHOD bool is_between(int i) const { return graded && between[i] > 0.0; }
    METHOD double above(int i, double z) const { return z - (graded ? half[i] : margin); }
    METHOD Moments inside(int i, double z) const { return tie_moments(z - centre[i], half[i], nodes); }

    METHOD double log_probability(int i, double z) const {
        if (is_timed(i)) return DRIFT * z - 0.5 * (DRIFT * z) * (DRIFT * z) * time[i] - LOG_2;
        return is_between(i) ? inside(i, z).log_mass : log_cdf(above(i, z));
    }

    // The slope and omega, minus the second derivative: what a Newton step needs.
    METHOD void site(int i, double z, double& slope, double& omega) const {
        if (is_timed(i)) {
            omega = DRIFT * DRIFT * time[i];
            slope = DRIFT - omega * z;
        } else if (is_between(i)) {
            const Moments tie = inside(i, z);
            slope = tie.shift, omega = tie.omega;
        } else {
            const double shifted = above(i, z);
            slope = hazard(shifted);
            omega = slope * (slope + shifted);
        }
    }

    // Omega averaged over differences `spread` times each node away, with the shares of a quadrature.
    METHOD double average(int i, double z, double spread, const double* at, const double* shares, int count) const {
        double sum = 0.0;
        if (is_timed(i) || is_between(i)) {
            for (int k = 0; k < count; k++) {
                double slope, omega;
                site(i, z + spread * at[k], slope, omega);
                sum += shares[k] * omega;
            }
            return sum;
        }
        const double middle = above(i, z);
        VECTORS_SUM for (int k = 0; k < count; k++) {
            const double shifted = middle + spread * at[k], psi = hazard(shifted);
            sum += shares[k] * (psi * (psi + shifted));
        }
        return sum;
    }

    // Omega and its logarithmic derivative, exact in both tails: what the evidence's gradient needs.
    METHOD void curve(int i, double z, double& omega, double& log_slope) const {
        if (is_timed(i)) {
            omega = DRIFT * DRIFT * time[i], log_slope = 0.0;
        } else if (is_between(i)) {
            const Moments tie = inside(i, z);
            omega = tie.omega, log_slope = -tie.third / tie.omega;
        } else {
            curvature(above(i, z), omega, log_slope);
        }
    }
};
