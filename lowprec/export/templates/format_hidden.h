        if (kept < $least) {
            /* Below the smallest value of a format without zero. */
            magnitude = $least;
            tail = 0;
        }
        magnitude -= $least;
