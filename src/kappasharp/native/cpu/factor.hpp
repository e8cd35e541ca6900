// Two symmetric matrices and what one thread does with them, along rows of neighbouring numbers.
//
// a is whole. b(i, j), i >= j, lies in row j of an upper triangle, with a right-hand side as column m; the factorization
// carries that along. After `sweep` b is whole too. Of b eight rows are worked on at a time, a panel; what is summed up
// for them stays in registers until it is done.
constexpr int PANEL = 8;

struct Matrices {
    int m, ld;
    double *A, *U;
    // Room for m + 1 numbers in whole panels; an odd number of these, so that rows begin at different places of a cache.
    METHOD static int stride(int m) { return PANEL * ((m + PANEL) / PANEL | 1); }
    METHOD double* place(double* memory) {
        ld = stride(m);
        A = memory, U = A + m * ld;
        return U + m * ld;
    }
    METHOD double& b(int i, int j) const { return U[j * ld + i]; }
    // How many numbers `prepare` keeps of its pivots, and a row to solve in.
    METHOD int room() const { return 2 * ld; }
    METHOD int rows_from(int block) const { return m - block < PANEL ? m - block : PANEL; }
};

DEVICE double times_a(const Matrices& M, const double* v, int i) { return dot(M.A + i * M.ld, v, M.m); }

// After `sweep`.
DEVICE double times_b(const Matrices& M, const double* v, int i) { return dot(M.U + i * M.ld, v, M.m); }

// The products of `count` numbers x with each of so many rows, in registers, go to `sums`.
template <int ROWS>
DEVICE void products(const double* rows, int ld, const double* x, int count, double* sums) {
    Numbers sum[ROWS] = {};
    int j = 0;
    for (; j + ACROSS <= count; j += ACROSS) {
        const Numbers here = load(x + j);
        UNROLL_ALL for (int r = 0; r < ROWS; r++) sum[r] += load(rows + r * ld + j) * here;
    }
    UNROLL_ALL for (int r = 0; r < ROWS; r++) sums[r] = sum_of(sum[r]);
    for (; j < count; j++) {
        UNROLL_ALL for (int r = 0; r < ROWS; r++) sums[r] += rows[r * ld + j] * x[j];
    }
}

// w = A v
DEVICE void times_all(const Matrices& M, const double* v, double* w) {
    int i = 0;
    for (; i + PANEL <= M.m; i += PANEL) products<PANEL>(M.A + i * M.ld, M.ld, v, M.m, w + i);
    for (; i < M.m; i++) w[i] = times_a(M, v, i);
}

// Row j of b takes numbers from a panel's first column on; its right-hand side and what follows become zero.
template <class Entry>
DEVICE void fill_row(const Matrices& M, int j, const Entry& entry) {
    double* to = M.U + j * M.ld;
    VECTORS for (int i = j / PANEL * PANEL; i < M.m; i++) to[i] = entry(i);
    for (int i = M.m; i < M.ld; i++) to[i] = 0.0;
}

// B = I + root A root in b.
DEVICE void build(const Matrices& M, const double* root) {
    for (int j = 0; j < M.m; j++) {
        const double *from = M.A + j * M.ld, own = root[j];
        fill_row(M, j, [=](int i) { return own * from[i] * root[i]; });
        M.U[j * M.ld + j] += 1.0;
    }
}

// So many columns of a panel.
template <int WIDTH>
struct Tile {
    Numbers y[PANEL][WIDTH];

    METHOD void clear() {
        UNROLL_ALL for (int r = 0; r < PANEL; r++) UNROLL_ALL for (int c = 0; c < WIDTH; c++) y[r][c] = Numbers{};
    }

    METHOD void read(const double* from, int rows, int ld) {
        clear();
        UNROLL_ALL for (int r = 0; r < PANEL; r++) {
            if (r >= rows) break;
            UNROLL_ALL for (int c = 0; c < WIDTH; c++) y[r][c] = load(from + r * ld + c * ACROSS);
        }
    }

    METHOD void write(double* to, int rows, int ld) const {
        UNROLL_ALL for (int r = 0; r < PANEL; r++) {
            if (r >= rows) break;
            UNROLL_ALL for (int c = 0; c < WIDTH; c++) store(to + r * ld + c * ACROSS, y[r][c]);
        }
    }

    // y -= S' X, where S and X have `count` rows, which begin ld numbers after each other.
    METHOD void subtract(const double* S, const double* X, int count, int ld) { subtract(S, X, count, ld, ld); }

    METHOD void subtract(const double* S, const double* X, int count, int ld_s, int ld_x) {
        for (int k = 0; k < count; k++, S += ld_s, X += ld_x) {
            Numbers x[WIDTH];
            UNROLL_ALL for (int c = 0; c < WIDTH; c++) x[c] = load(X + c * ACROSS);
            UNROLL_ALL for (int r = 0; r < PANEL; r++) {
                const Numbers s = repeated(S[r]);
                UNROLL_ALL for (int c = 0; c < WIDTH; c++) y[r][c] -= s * x[c];
            }
        }
    }
};

// A panel's own square, the upper triangle of its factor, with 1/diagonal; zero where there is no row.
struct Corner {
    double entry[PANEL][PANEL], inverse[PANEL];

    METHOD void read(const double* from, int rows, int ld, const double* known) {
        for (int r = 0; r < PANEL; r++) {
            for (int c = 0; c < PANEL; c++) entry[r][c] = r < rows ? from[r * ld + c] : 0.0;
            inverse[r] = r < rows ? known[r] : 0.0;
        }
    }

    // The factor of what is there. Rows are scaled last, so that no root is waited for.
    METHOD void factor(int rows) {
        UNROLL_ALL for (int r = 0; r < PANEL; r++) {
            const double own = 1.0 / entry[r][r];
            UNROLL_ALL for (int q = r + 1; q < PANEL; q++) {
                const double times = own * entry[r][q];
                VECTORS for (int c = 0; c < PANEL; c++) entry[q][c] -= times * entry[r][c];
            }
        }
        UNROLL_ALL for (int r = 0; r < PANEL; r++) {
            inverse[r] = r < rows ? 1.0 / sqrt(entry[r][r]) : 0.0;
            VECTORS for (int c = 0; c < PANEL; c++) entry[r][c] *= inverse[r];
        }
    }

    // The factor's transpose solved for the columns of a tile.
    template <int WIDTH>
    METHOD void settle(Tile<WIDTH>& tile) const {
        UNROLL_ALL for (int r = 0; r < PANEL; r++) {
            UNROLL_ALL for (int c = 0; c < WIDTH; c++) tile.y[r][c] *= repeated(inverse[r]);
            UNROLL_ALL for (int q = r + 1; q < PANEL; q++) {
                const Numbers times = repeated(entry[r][q]);
                UNROLL_ALL for (int c = 0; c < WIDTH; c++) tile.y[q][c] -= times * tile.y[r][c];
            }
        }
    }
};

// A tile of every some columns between two of them, which are panels' beginnings.
template <class Wide, class Narrow>
DEVICE void by_tiles(int from, int to, const Wide& wide, const Narrow& narrow) {
    for (; from + ABREAST * ACROSS <= to; from += ABREAST * ACROSS) wide(from);
    for (; from < to; from += ACROSS) narrow(from);
}

template <int WIDTH>
DEVICE void factor_tile(const Matrices& M, const Corner& corner, int block, int at) {
    Tile<WIDTH> tile;
    double* own = M.U + block * M.ld + at;
    tile.read(own, M.rows_from(block), M.ld);
    tile.subtract(M.U + block, M.U + at, block, M.ld);
    corner.settle(tile);
    tile.write(own, M.rows_from(block), M.ld);
}

// The Cholesky factor of b in place, its column m solved along; 1/diagonal goes to `inverse` (m).
DEVICE void factor(const Matrices& M, double* inverse) {
    const int last = (M.m + PANEL) / PANEL * PANEL;
    for (int block = 0; block < M.m; block += PANEL) {
        const int rows = M.rows_from(block);
        Corner corner;
        for (int c = 0; c < PANEL; c += ACROSS) {
            Tile<1> tile;
            tile.read(M.U + block * M.ld + block + c, rows, M.ld);
            tile.subtract(M.U + block, M.U + block + c, block, M.ld);
            tile.write(&corner.entry[0][c], PANEL, PANEL);
        }
        corner.factor(rows);
        for (int r = 0; r < rows; r++) {
            std::copy(corner.entry[r] + r, corner.entry[r] + PANEL, M.U + (block + r) * M.ld + block + r);
            inverse[block + r] = corner.inverse[r];
        }
        by_tiles(
            block + PANEL, last, [&](int at) { factor_tile<ABREAST>(M, corner, block, at); },
            [&](int at) { factor_tile<1>(M, corner, block, at); });
    }
}

// x of a panel's own square: what is found is taken from the others at once, so that nothing waits for a sum. The rows of
// the factor's transpose, or its columns; `row` is the panel's first.
template <bool BACK>
DEVICE void settle_corner(const double* row, int ld, const double* inverse, double* x, int rows) {
    UNROLL_ALL for (int k = 0; k < rows; k++) {
        const int r = BACK ? rows - 1 - k : k;
        x[r] *= inverse[r];
        UNROLL_ALL for (int q = BACK ? 0 : r + 1; q < (BACK ? r : rows); q++)
            x[q] -= (BACK ? row[q * ld + r] : row[r * ld + q]) * x[r];
    }
}

template <bool BACK>
DEVICE void settle_panel(const Matrices& M, const double* inverse, double* x, int block) {
    const double* row = M.U + block * M.ld + block;
    if (M.rows_from(block) < PANEL) return settle_corner<BACK>(row, M.ld, inverse + block, x + block, M.m - block);
    double own[PANEL];
    std::copy(x + block, x + block + PANEL, own);
    settle_corner<BACK>(row, M.ld, inverse + block, own, PANEL);
    std::copy(own, own + PANEL, x + block);
}

// x with L' x = y, y in x before, both with room for whole panels and zero beyond m; after `factor`.
DEVICE void settle_back(const Matrices& M, const double* inverse, double* x) {
    for (int block = (M.m - 1) / PANEL * PANEL; block >= 0; block -= PANEL) {
        const int next = block + PANEL;
        if (next < M.m) {
            double sums[PANEL];
            products<PANEL>(M.U + block * M.ld + next, M.ld, x + next, M.ld - next, sums);
            for (int r = 0; r < PANEL; r++) x[block + r] -= sums[r];
        }
        settle_panel<true>(M, inverse, x, block);
    }
}

// x with L x = y, in the same way.
DEVICE void settle_forth(const Matrices& M, const double* inverse, double* x) {
    for (int block = 0; block < M.m; block += PANEL) {
        settle_panel<false>(M, inverse, x, block);
        if (M.rows_from(block) < PANEL) return;
        const double* row = M.U + block * M.ld;
        Numbers known[PANEL];
        UNROLL_ALL for (int r = 0; r < PANEL; r++) known[r] = repeated(x[block + r]);
        for (int j = block + PANEL; j < M.m; j += ACROSS) {
            Numbers even = load(x + j), odd = Numbers{};
            UNROLL_ALL for (int r = 0; r < PANEL; r += 2) {
                even -= known[r] * load(row + r * M.ld + j), odd -= known[r + 1] * load(row + (r + 1) * M.ld + j);
            }
            store(x + j, even + odd);
        }
    }
}

// x with L' x = column m of b, after `factor`. `inverse` is followed by room for a row.
DEVICE void back_substitute(const Matrices& M, double* inverse, double* x) {
    double* own = inverse + M.ld;
    for (int i = 0; i < M.m; i++) own[i] = M.b(M.m, i);
    std::fill(own + M.m, own + M.ld, 0.0);
    settle_back(M, inverse, own);
    std::copy(own, own + M.m, x);
}

template <int WIDTH>
DEVICE void invert_tile(const Matrices& M, const Corner& corner, double* rows, int block, int at) {
    Tile<WIDTH> tile;
    double* own = rows + block * M.ld + at;
    tile.read(own, M.rows_from(block), M.ld);
    if (at < block) tile.subtract(M.U + at * M.ld + block, rows + at * M.ld + at, block - at, M.ld);
    corner.settle(tile);
    tile.write(own, M.rows_from(block), M.ld);
}

// The inverse of L, whose columns are the rows of U, to `rows`; beyond their diagonals these are zero.
DEVICE void invert(const Matrices& M, const double* inverse, double* rows) {
    std::fill(rows, rows + M.m * M.ld, 0.0);
    for (int i = 0; i < M.m; i++) rows[i * M.ld + i] = 1.0;
    for (int block = 0; block < M.m; block += PANEL) {
        Corner corner;
        corner.read(M.U + block * M.ld + block, M.rows_from(block), M.ld, inverse + block);
        by_tiles(
            0, block + PANEL, [&](int at) { invert_tile<ABREAST>(M, corner, rows, block, at); },
            [&](int at) { invert_tile<1>(M, corner, rows, block, at); });
    }
}

template <int WIDTH>
DEVICE void square_tile(const Matrices& M, const double* rows, int block, int at) {
    Tile<WIDTH> tile;
    tile.clear();
    const double* below = rows + block * M.ld;
    tile.subtract(below + block, below + at, M.m - block, M.ld);
    tile.write(M.U + block * M.ld + at, M.rows_from(block), M.ld);
}

// b becomes minus its inverse, whole, after `factor`; `rows` holds m ld numbers.
DEVICE void turn_round(const Matrices& M, const double* inverse, double* rows) {
    invert(M, inverse, rows);
    for (int block = 0; block < M.m; block += PANEL) {
        by_tiles(
            0, block + PANEL, [&](int at) { square_tile<ABREAST>(M, rows, block, at); },
            [&](int at) { square_tile<1>(M, rows, block, at); });
    }
    for (int i = 0; i < M.m; i++) {
        for (int j = 0; j < i; j++) M.U[j * M.ld + i] = M.U[i * M.ld + j];
    }
}

// b becomes minus its inverse, whole; `pivots` (m) multiply to its determinant; `spare` holds ld + m ld numbers.
DEVICE void sweep(const Matrices& M, double* pivots, double* spare) {
    factor(M, spare);
    for (int j = 0; j < M.m; j++) pivots[j] = M.b(j, j) * M.b(j, j);
    turn_round(M, spare, spare + M.ld);
}

// A takes the values of a whole symmetric matrix, each times a number.
DEVICE void hold(const Matrices& M, const double* whole, double times) {
    for (int i = 0; i < M.m; i++) {
        VECTORS for (int j = 0; j < M.m; j++) M.A[i * M.ld + j] = times * whole[i * M.m + j];
    }
}

DEVICE double entry_a(const Matrices& M, int i) { return M.A[i * M.ld + i]; }

DEVICE double either_a(const Matrices& M, int i, int j) { return M.A[i * M.ld + j]; }

// 1/L_ii, after `factor`.
DEVICE double inverse_of_diagonal(const Matrices&, const double* inverse, int i) { return inverse[i]; }

// The inverse of L, after `factor`; entry j of its column i lies `at` i down + j across. `inverse` is followed by room for it.
DEVICE void inverse_columns(const Matrices& M, double* inverse, double*, const double*& at, int& down, int& across) {
    invert(M, inverse, inverse + M.ld);
    at = inverse + M.ld, down = 1, across = M.ld;
}

// The diagonal of b's inverse, for which b is made something to solve with; `spare` holds m rows.
DEVICE void inverse_diagonal(const Matrices& M, double* inverse, double* spare, double* own) {
    factor(M, inverse);
    invert(M, inverse, spare);
    std::fill(own, own + M.m, 0.0);
    for (int j = 0; j < M.m; j++) {
        const double* row = spare + j * M.ld;
        VECTORS for (int i = 0; i <= j; i++) own[i] += row[i] * row[i];
    }
}

// b takes the values of a whole symmetric matrix, for `sweep`.
DEVICE void take_up(const Matrices& M, const double* whole) {
    for (int j = 0; j < M.m; j++) {
        const double* from = whole + j * M.m;
        fill_row(M, j, [=](int i) { return from[i]; });
    }
}

DEVICE double either_b(const Matrices& M, int i, int j) { return M.U[i * M.ld + j]; }

// b = sign (A + diag r) + shift I as something to solve with. False where it is not positive definite. `inverse` holds
// two rows.
DEVICE bool prepare(const Matrices& M, double sign, const double* r, double shift, double* inverse, double*) {
    for (int j = 0; j < M.m; j++) {
        const double* from = M.A + j * M.ld;
        fill_row(M, j, [=](int i) { return sign * from[i]; });
        M.U[j * M.ld + j] += sign * r[j] + shift;
    }
    factor(M, inverse);
    return std::all_of(inverse, inverse + M.m, [](double one) { return one > 0.0 && one < INFINITE; });
}

// x with b x = v, after `prepare`.
DEVICE void solve(const Matrices& M, double* inverse, const double* v, double* x) {
    double* own = inverse + M.ld;
    std::copy(v, v + M.m, own);
    std::fill(own + M.m, own + M.ld, 0.0);
    settle_forth(M, inverse, own);
    settle_back(M, inverse, own);
    std::copy(own, own + M.m, x);
}
