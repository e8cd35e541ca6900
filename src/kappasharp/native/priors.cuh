// The log prior of the hyperparameters and its slope: kernels/priors.py.
//
// theta is all log length scales, the log output scale of each kernel, and of several people logit rho and every log c.

struct Prior {
    double linear, exponential, quadratic, centre;
    METHOD double log_density(double t) const {
        return linear * t + exponential * exp(t) + quadratic * (t - centre) * (t - centre);
    }
    METHOD double slope(double t) const { return linear + exponential * exp(t) + 2.0 * quadratic * (t - centre); }
};

// A term in the sum of a kernel's log length scales about their centre: how much they move together.
struct Together {
    double quadratic, centre;
    METHOD double sum(const double* theta, int from, int to) const {
        double total = 0.0;
        for (int j = from + lane(); j < to; j += WARP) total += theta[j] - centre;
        return lane_sum(total);
    }
};

// Split says how many of the length scales are the first kernel's, 0 where there is one kernel only; People whether there
// are several people, and `voters` how many.
struct Priors {
    Dimension d;
    Split split;
    People people;
    int voters;
    Prior length, second, scale, ratio, shared, consistency;
    Together together, second_together;

    METHOD int kernels() const { return split ? 2 : 1; }
    METHOD int first_size() const { return split ? int(split) : int(d); }
    METHOD int size() const { return d + kernels() + (people ? 1 + voters : 0); }
    METHOD const Prior& of_length(int j) const { return split && j >= split ? second : length; }
    METHOD const Prior& of_person(int c) const { return c == d + kernels() ? shared : consistency; }

    // The logarithm of both output scales together; the first one's share of them goes to `share`.
    METHOD double total(const double* theta, double& share) const {
        const double apart = theta[d + 1] - theta[d];
        share = 1.0 / (1.0 + exp(apart));
        return apart > 0.0 ? theta[d + 1] + log1p(exp(-apart)) : theta[d] + log1p(exp(apart));
    }

    METHOD double log_density(const double* theta) const {
        double sum = 0.0;
        for (int j = lane(); j < d; j += WARP) sum += of_length(j).log_density(theta[j]);
        if (people) {
            for (int c = d + kernels() + lane(); c < size(); c += WARP) sum += of_person(c).log_density(theta[c]);
        }
        const double shift = together.sum(theta, 0, first_size());
        double found = lane_sum(sum) + together.quadratic * shift * shift;
        if (!split) return found + scale.log_density(theta[d]);
        const double other = second_together.sum(theta, split, d);
        found += second_together.quadratic * other * other;
        double share;
        return found + scale.log_density(total(theta, share)) + ratio.log_density(theta[d + 1] - theta[d]);
    }

    // Minus the gradient of evidence plus priors, whose part that A brings is there already.
    METHOD void add(const double* theta, double* gradient) const {
        const double pulled = 2.0 * together.quadratic * together.sum(theta, 0, first_size());
        double other = 0.0;
        if (split) other = 2.0 * second_together.quadratic * second_together.sum(theta, split, d);
        sync_block();
        for (int c = thread_index(); c < size(); c += thread_count()) {
            double slope;
            if (c < d) slope = of_length(c).slope(theta[c]) + (split && c >= split ? other : pulled);
            else if (c < d + kernels()) slope = of_scale(theta, c);
            else slope = of_person(c).slope(theta[c]);
            gradient[c] = -(slope + gradient[c]);
        }
    }

    METHOD double of_scale(const double* theta, int c) const {
        if (!split) return scale.slope(theta[c]);
        double share;
        const double both = scale.slope(total(theta, share)), apart = ratio.slope(theta[d + 1] - theta[d]);
        return c == d ? share * both - apart : (1.0 - share) * both + apart;
    }
};
