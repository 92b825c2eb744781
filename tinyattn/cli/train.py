def run(options, source):
    print(options, source)
