// The MAP of one row's differences by Newton's method, by a thread block: inference/laplace.py.

struct Newton {
    Matrices M;
    Likelihood likelihood;
    double tolerance;
    int plain, damped;
    // z and alpha at the MAP; where the next search begins; and what a step needs.
    double *z, *kept, *alpha, *target, *slope, *omega, *root, *work, *pull;
    // What the factorizations use beside.
    double* spare;
    int steps;

    METHOD double* place(double* memory) {
        const int m = M.m;
        z = memory, kept = z + m, alpha = kept + m, target = alpha + m, slope = target + m;
        omega = slope + m, root = omega + m, work = root + m, pull = work + m;
        steps = 0;
        return pull + m;
    }

    // Slope, omega and its root at z; the distance of alpha from the slope goes to work. Every thread has its own answers.
    METHOD void sites() {
        const int m = M.m, count = thread_count();
        if (likelihood.graded) {
            for (int i = thread_index(); i < m; i += count) likelihood.site(i, z[i], slope[i], omega[i]);
        } else {
            VECTORS for (int i = thread_index(); i < m; i += count) {
                const double shifted = z[i] - likelihood.margin, psi = hazard(shifted);
                slope[i] = psi, omega[i] = psi * (psi + shifted);
            }
        }
        VECTORS for (int i = thread_index(); i < m; i += count) {
            root[i] = sqrt(omega[i]);
            work[i] = fabs(alpha[i] - slope[i]);
        }
    }

    // How far alpha is from the slopes at z.
    METHOD double off() const {
        double largest = 0.0;
        for (int i = lane(); i < M.m; i += WARP) largest = larger(largest, work[i]);
        return lane_max(largest);
    }

    // The alpha at which the local quadratic model is stationary goes to target. Sites must be known.
    METHOD void step_target() {
        steps++;
        for (int i = thread_index(); i < M.m; i += thread_count()) target[i] = slope[i] + omega[i] * z[i];
        build(M, root);
        sync_block();
        times_all(M, target, pull);
        for (int i = thread_index(); i < M.m; i += thread_count()) M.b(M.m, i) = root[i] * pull[i];
        sync_block();
        factor(M, spare);
        back_substitute(M, spare, pull);
        for (int i = thread_index(); i < M.m; i += thread_count()) target[i] -= root[i] * pull[i];
        sync_block();
    }

    METHOD double objective(const double* weights, const double* differences) const {
        double sum = 0.0;
        for (int i = lane(); i < M.m; i += WARP)
            sum += 0.5 * weights[i] * differences[i] - likelihood.log_probability(i, differences[i]);
        return lane_sum(sum);
    }

    // What rounding may add to the objective, that of z = A alpha with it.
    METHOD double rounding(const double* weights, double J) const {
        double widest = 0.0, sum = 0.0;
        for (int i = lane(); i < M.m; i += WARP) widest = larger(widest, entry_a(M, i)), sum += fabs(weights[i]);
        widest = lane_max(widest), sum = lane_sum(sum);
        return 2.220446049250313e-16 * (64.0 * (1.0 + fabs(J)) + widest * sum * sum);
    }

    // Plain steps from the last MAP; where they do not settle, again from zero with steps halved until J falls.
    METHOD bool find_map() {
        double J = INFINITE, step = 1.0;
        for (int count = 0; count < plain + damped; count++) {
            if (count == 0 || count == plain) {
                for (int i = thread_index(); i < M.m; i += thread_count())
                    z[i] = count == 0 ? kept[i] : 0.0, alpha[i] = 0.0;
                sites();
                sync_block();
                if (count == plain) J = objective(alpha, z);
            }
            step_target();
            for (int i = thread_index(); i < M.m; i += thread_count())
                target[i] = count < plain ? target[i] : alpha[i] + (target[i] - alpha[i]) * step;
            sync_block();
            times_all(M, target, pull);
            bool better = true;
            if (count >= plain) {
                sync_block();
                const double J_trial = objective(target, pull);
                better = J_trial <= J + rounding(target, J);
                J = better ? J_trial : J;
                step = better ? 1.0 : 0.5 * step;
            }
            for (int i = thread_index(); better && i < M.m; i += thread_count()) alpha[i] = target[i], z[i] = pull[i];
            if (better) sites();
            sync_block();
            const double left = off();
            sync_block();
            if (left <= tolerance) return true;
        }
        return false;
    }
};
