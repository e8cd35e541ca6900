// Two symmetric matrices in one square of shared memory, and what a block of threads does with them.
//
// a(i, j), i >= j, lies in the lower triangle; b(i, j), i >= j, above it: the row of b's column j. Row m of b is a
// right-hand side that the factorization carries along. Panels have 8 columns; a panel's own 8 x 8 corner is worked out
// by every thread that needs it, in registers.
constexpr int PANEL = 8;
constexpr int CORNER = 36;
constexpr int STRIP = 4;

struct Matrices {
    int m, ld;
    double* s;
    METHOD double& a(int i, int j) const { return s[i * ld + j]; }
    METHOD double& b(int i, int j) const { return s[j * ld + i + 1]; }
    // How many numbers `prepare` keeps of its pivots.
    METHOD int room() const { return m; }
    METHOD double& symmetric_b(int i, int j) const { return i >= j ? b(i, j) : b(j, i); }
    METHOD double* place(double* memory) {
        s = memory, ld = (m + 2) | 1;
        return memory + m * ld;
    }
};

// The entries of a lower triangle, one after another, by rows.
struct Triangle {
    int i, j;
    METHOD explicit Triangle(int index) : i(0), j(index) { settle(); }
    METHOD void advance(int steps) { j += steps, settle(); }
    METHOD void settle() {
        while (j > i) j -= i + 1, i++;
    }
};

// (A v)_i
DEVICE double times_a(const Matrices& M, const double* v, int i) {
    double sum[4] = {0.0, 0.0, 0.0, 0.0};
    const double* row = M.s + i * M.ld;
    int j = 0;
    for (; j + 3 <= i; j += 4) {
        UNROLL for (int c = 0; c < 4; c++) sum[c] += row[j + c] * v[j + c];
    }
    for (; j <= i; j++) sum[0] += row[j] * v[j];
    const double* column = M.s + i;
    for (; j + 3 < M.m; j += 4) {
        UNROLL for (int c = 0; c < 4; c++) sum[c] += column[(j + c) * M.ld] * v[j + c];
    }
    for (; j < M.m; j++) sum[1] += column[j * M.ld] * v[j];
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

// w = A v; every thread makes its own.
DEVICE void times_all(const Matrices& M, const double* v, double* w) {
    for (int i = thread_index(); i < M.m; i += thread_count()) w[i] = times_a(M, v, i);
}

// (B v)_i
DEVICE double times_b(const Matrices& M, const double* v, int i) {
    double sum[2] = {0.0, 0.0};
    for (int j = 0; j < M.m; j++) sum[j & 1] += M.symmetric_b(i, j) * v[j];
    return sum[0] + sum[1];
}

// B = I + root A root in b, and root (A v) in its row m.
DEVICE void build(const Matrices& M, const double* root) {
    Triangle at(thread_index());
    for (; at.i < M.m; at.advance(thread_count())) {
        const double entry = root[at.i] * M.a(at.i, at.j) * root[at.j];
        M.b(at.i, at.j) = at.i == at.j ? 1.0 + entry : entry;
    }
}

DEVICE void load_corner(const Matrices& M, int k, double (&corner)[PANEL][PANEL]) {
    UNROLL for (int r = 0; r < PANEL; r++) {
        UNROLL for (int c = 0; c <= r; c++) corner[r][c] = k + r < M.m ? M.b(k + r, k + c) : (r == c ? 1.0 : 0.0);
    }
}

DEVICE void store_corner(const double (&corner)[PANEL][PANEL], double* out) {
    UNROLL for (int r = 0; r < PANEL; r++) {
        UNROLL for (int c = 0; c <= r; c++) out[r * (r + 1) / 2 + c] = corner[r][c];
    }
}

// The corner's Cholesky factor, with 1/L_cc on the diagonal.
DEVICE void factor_corner(double (&corner)[PANEL][PANEL]) {
    UNROLL for (int c = 0; c < PANEL; c++) {
        corner[c][c] = rsqrt(corner[c][c]);
        UNROLL for (int r = c + 1; r < PANEL; r++) corner[r][c] *= corner[c][c];
        UNROLL for (int r = c + 1; r < PANEL; r++) {
            UNROLL for (int q = c + 1; q <= r; q++) corner[r][q] -= corner[r][c] * corner[q][c];
        }
    }
}

// b(i, j) -= sum_c left[c][i] right[c][j] for base <= j <= i <= last, j < m; strips of four rows, one column a thread.
// Rows and columns inside [skip, skip + PANEL) are left alone.
DEVICE void subtract(const Matrices& M, const double* left, const double* right, int ld, int base, int last, int skip) {
    const int strips = (last - base) / STRIP + 1;
    int unit = thread_index() / STRIP;
    Triangle at(unit);
    for (int e = thread_index(); at.i < strips; e += thread_count()) {
        const int i = base + STRIP * at.i, j = base + STRIP * at.j + e % STRIP;
        const bool skipped = (i >= skip && i < skip + PANEL) || (j >= skip && j < skip + PANEL);
        if (j < M.m && !skipped) {
            double sum[STRIP] = {0.0, 0.0, 0.0, 0.0};
            UNROLL for (int c = 0; c < PANEL; c++) {
                const double factor = right[c * ld + j];
                UNROLL for (int q = 0; q < STRIP; q++) sum[q] += left[c * ld + (i + q <= last ? i + q : last)] * factor;
            }
            UNROLL for (int q = 0; q < STRIP; q++) {
                if (i + q <= last && i + q >= j) M.b(i + q, j) -= sum[q];
            }
        }
        const int next = (e + thread_count()) / STRIP;
        at.advance(next - unit);
        unit = next;
    }
}

// The Cholesky factor of b in place, its row m solved along; the corners' factors go to `corners`, CORNER doubles each.
DEVICE void factor(const Matrices& M, double* corners) {
    for (int k = 0; k < M.m; k += PANEL) {
        const int base = k + PANEL < M.m ? k + PANEL : M.m;
        if (thread_index() < WARP || thread_index() <= M.m - base) {
            double corner[PANEL][PANEL];
            load_corner(M, k, corner);
            factor_corner(corner);
            for (int i = base + thread_index(); i <= M.m; i += thread_count()) {
                double x[PANEL];
                UNROLL for (int c = 0; c < PANEL; c++) {
                    double sum = k + c < M.m ? M.b(i, k + c) : 0.0;
                    UNROLL for (int q = 0; q < c; q++) sum -= x[q] * corner[c][q];
                    x[c] = sum * corner[c][c];
                    if (k + c < M.m) M.b(i, k + c) = x[c];
                }
            }
            if (thread_index() == 0) store_corner(corner, corners + k / PANEL * CORNER);
        }
        sync_block();
        if (base < M.m) {
            const double* rows = M.s + k * M.ld + 1;
            subtract(M, rows, rows, M.ld, base, M.m, M.m + 1);
        }
        sync_block();
    }
}

// x with L' x = row m of b, after `factor`.
DEVICE void back_substitute(const Matrices& M, const double* corners, double* x) {
    const int last = (M.m - 1) / PANEL * PANEL;
    for (int k = last; k >= 0; k -= PANEL) {
        if (thread_index() == 0 || thread_index() < k) {
            const double* corner = corners + k / PANEL * CORNER;
            double part[PANEL];
            UNROLL for (int c = PANEL - 1; c >= 0; c--) {
                double sum = k + c < M.m ? M.b(M.m, k + c) : 0.0;
                UNROLL for (int r = PANEL - 1; r > c; r--) sum -= corner[r * (r + 1) / 2 + c] * part[r];
                part[c] = sum * corner[c * (c + 1) / 2 + c];
            }
            if (thread_index() == 0) {
                UNROLL for (int c = 0; c < PANEL; c++) {
                    if (k + c < M.m) x[k + c] = part[c];
                }
            }
            for (int j = thread_index(); j < k; j += thread_count()) {
                double sum = M.b(M.m, j);
                UNROLL for (int c = 0; c < PANEL; c++) {
                    if (k + c < M.m) sum -= M.b(k + c, j) * part[c];
                }
                M.b(M.m, j) = sum;
            }
        }
        sync_block();
    }
}

// Sweeps all pivots of the corner: corner becomes minus its inverse; the pivots are written by thread 0.
DEVICE void sweep_corner(double (&corner)[PANEL][PANEL], double* pivots, int count) {
    UNROLL for (int c = 0; c < PANEL; c++) {
        if (thread_index() == 0 && c < count) pivots[c] = corner[c][c];
        const double inverse = 1.0 / corner[c][c];
        double column[PANEL];
        UNROLL for (int r = 0; r < PANEL; r++) column[r] = r > c ? corner[r][c] : corner[c][r];
        UNROLL for (int r = 0; r < PANEL; r++) {
            UNROLL for (int q = 0; q <= r; q++) {
                if (r != c && q != c) corner[r][q] -= column[r] * inverse * column[q];
            }
        }
        UNROLL for (int r = 0; r < PANEL; r++) {
            if (r > c) corner[r][c] = column[r] * inverse;
            if (r < c) corner[c][r] = column[r] * inverse;
        }
        corner[c][c] = -inverse;
    }
}

// b becomes minus its inverse, panel by panel; `pivots` (m) multiply to its determinant; `spare` holds 16 m + CORNER.
DEVICE void sweep(const Matrices& M, double* pivots, double* spare) {
    double *old = spare, *scaled = old + PANEL * M.m, *kept = scaled + PANEL * M.m;
    for (int k = 0; k < M.m; k += PANEL) {
        const int width = k + PANEL < M.m ? PANEL : M.m - k;
        if (thread_index() < M.m) {
            double corner[PANEL][PANEL];
            load_corner(M, k, corner);
            sweep_corner(corner, pivots + k, width);
            for (int i = thread_index(); i < M.m; i += thread_count()) {
                if (i >= k && i < k + PANEL) continue;
                double row[PANEL];
                UNROLL for (int c = 0; c < PANEL; c++) {
                    row[c] = c < width ? M.symmetric_b(i, k + c) : 0.0;
                    old[c * M.m + i] = row[c];
                }
                UNROLL for (int c = 0; c < PANEL; c++) {
                    double sum = 0.0;
                    UNROLL for (int q = 0; q < PANEL; q++) sum -= row[q] * (q > c ? corner[q][c] : corner[c][q]);
                    scaled[c * M.m + i] = sum;
                    if (c < width) M.symmetric_b(i, k + c) = sum;
                }
            }
            if (thread_index() == 0) store_corner(corner, kept);
        }
        sync_block();
        // Others may have read the corner until now.
        for (int e = thread_index(); e < PANEL * PANEL; e += thread_count()) {
            const int r = e / PANEL, c = e % PANEL;
            if (c <= r && r < width) M.b(k + r, k + c) = kept[r * (r + 1) / 2 + c];
        }
        subtract(M, scaled, old, M.m, 0, M.m - 1, k);
        sync_block();
    }
}

// A takes the values of a whole symmetric matrix, each times a number.
DEVICE void hold(const Matrices& M, const double* whole, double times) {
    Triangle at(thread_index());
    for (; at.i < M.m; at.advance(thread_count())) M.a(at.i, at.j) = times * whole[at.i * M.m + at.j];
    sync_block();
}

DEVICE double entry_a(const Matrices& M, int i) { return M.a(i, i); }

DEVICE double either_a(const Matrices& M, int i, int j) { return i >= j ? M.a(i, j) : M.a(j, i); }

// 1/L_ii, after `factor`.
DEVICE double inverse_of_diagonal(const Matrices&, const double* corners, int i) {
    const int r = i % PANEL;
    return corners[i / PANEL * CORNER + r * (r + 1) / 2 + r];
}

// The inverse of L, after `factor`, to `out` (m x m): entry j of its column i lies `at` i down + j across. Every thread makes
// and reads its own rows of the inverse.
DEVICE void inverse_columns(const Matrices& M, const double* corners, double* out, const double*& at, int& down,
                            int& across) {
    at = out, down = M.m, across = 1;
    for (int j = thread_index(); j < M.m; j += thread_count()) {
        for (int i = M.m - 1; i > j; i--) out[i * M.m + j] = 0.0;
        for (int i = j; i >= 0; i--) {
            double sum = i == j ? 1.0 : 0.0;
            for (int k = i + 1; k <= j; k++) {
                const int r = k % PANEL, c = i % PANEL;
                const bool same = k / PANEL == i / PANEL;
                sum -= out[k * M.m + j] * (same ? corners[k / PANEL * CORNER + r * (r + 1) / 2 + c] : M.b(k, i));
            }
            out[i * M.m + j] = sum * inverse_of_diagonal(M, corners, i);
        }
    }
}

// The diagonal of b's inverse, for which b is made something to solve with; `spare` holds as much as `sweep` needs.
DEVICE void inverse_diagonal(const Matrices& M, double* pivots, double* spare, double* own) {
    sweep(M, pivots, spare);
    for (int i = thread_index(); i < M.m; i += thread_count()) own[i] = -M.b(i, i);
    sync_block();
}

// b takes the values of a whole symmetric matrix, for `sweep`.
DEVICE void take_up(const Matrices& M, const double* whole) {
    Triangle at(thread_index());
    for (; at.i < M.m; at.advance(thread_count())) M.b(at.i, at.j) = whole[at.i * M.m + at.j];
    sync_block();
}

DEVICE double either_b(const Matrices& M, int i, int j) { return M.symmetric_b(i, j); }

// b = sign (A + diag r) + shift I as something to solve with. False where it is not positive definite. `pivots` holds m,
// `spare` as much as `sweep` needs.
DEVICE bool prepare(const Matrices& M, double sign, const double* r, double shift, double* pivots, double* spare) {
    Triangle at(thread_index());
    for (; at.i < M.m; at.advance(thread_count())) {
        const double entry = sign * M.a(at.i, at.j);
        M.b(at.i, at.j) = at.i == at.j ? entry + sign * r[at.i] + shift : entry;
    }
    sync_block();
    sweep(M, pivots, spare);
    double worst = 0.0;
    for (int i = lane(); i < M.m; i += WARP) worst = pivots[i] > 0.0 ? worst : 1.0;
    return lane_max(worst) == 0.0;
}

// x with b x = v, after `prepare`.
DEVICE void solve(const Matrices& M, const double*, const double* v, double* x) {
    for (int i = thread_index(); i < M.m; i += thread_count()) x[i] = -times_b(M, v, i);
    sync_block();
}
