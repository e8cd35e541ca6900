// The standard normal's log Phi and hazard psi = phi/Phi with derivatives, exact in both tails: numerics/normal.py.
constexpr double INVERSE_SQRT_2_PI = 0.39894228040143267794;
constexpr double TAIL = 8.0;
constexpr int DEPTH = 12;

DEVICE double log_cdf(double z) {
    if (z < -1.0) return log(0.5 * erfcx(-INVERSE_SQRT_2 * z)) - 0.5 * z * z;
    return log1p(-0.5 * erfc(INVERSE_SQRT_2 * z));
}

DEVICE double cdf(double z) { return 0.5 * erfc(-INVERSE_SQRT_2 * z); }

DEVICE double density(double z) { return INVERSE_SQRT_2_PI * exp(-0.5 * z * z); }

// The curvature psi (psi + z) and its logarithmic derivative.
DEVICE void curvature(double z, double& omega, double& log_slope) {
    double psi = hazard(z);
    double e = psi + z;
    log_slope = 1.0 / e - e - psi;
    if (z < -TAIL) {
        double t = -z, e_k = 1.0 / t;
        for (int k = 2 + DEPTH; k >= 3; k--) e_k = 1.0 / (t + (k + 1) * e_k);
        double e_2 = 1.0 / (t + 3.0 * e_k);
        e = 1.0 / (t + 2.0 * e_2);
        log_slope = 2.0 * (e_2 - e);
    }
    omega = psi * e;
}

// Whether the kernel is Matern's, known to the compiler where it compiles for one family.
using Matern = NUMBER(MATERN);

// The kernel's value and slope at h = -r^2/2: kernels/stationary.py, profile.
DEVICE void profile(Matern matern, double h, double& value, double& slope) {
    if (matern) {
        double scaled = sqrt(fmax(-10.0 * h, 1e-30));
        double decay = exp(-scaled);
        slope = (5.0 / 3.0) * (1.0 + scaled) * decay;
        value = (1.0 + scaled + scaled * scaled / 3.0) * decay;
    } else {
        value = slope = exp(h);
    }
}
